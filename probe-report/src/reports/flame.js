// Zooms, searches, and describes the frame under the mouse. The image is complete without this script.
(() => {
  const svg = document.currentScript?.ownerSVGElement ?? document.documentElement;
  const find = (name) => svg.querySelector(name);
  const frames = [...svg.querySelectorAll('g[data-t]')].map((g) => ({
    g,
    start: +g.dataset.s,
    total: +g.dataset.t,
    depth: +g.dataset.d,
    name: g.dataset.n,
    title: g.querySelector('title').textContent,
    rect: g.querySelector('rect'),
  }));
  const all = frames[0];
  const [margin, letter] = [+svg.dataset.margin, +svg.dataset.letter];
  const info = find('#info');
  let zoomed = all;

  const label = (name, room) => {
    const last = name.split('::').pop();
    if (name.length <= room) return name;
    if (last.length <= room) return last;
    return room >= 3 ? last.slice(0, room - 1) + '…' : '';
  };

  const draw = () => {
    const width = Math.max(svg.parentElement ? +svg.dataset.width : window.innerWidth - 16, 320);
    const height = svg.viewBox.baseVal.height;
    svg.setAttribute('width', width);
    svg.setAttribute('viewBox', `0 0 ${width} ${height}`);
    const scale = (width - 2 * margin) / Math.max(zoomed.total, 1);
    const end = zoomed.start + zoomed.total;
    for (const frame of frames) {
      const above = frame.depth < zoomed.depth;
      const from = Math.max(frame.start, zoomed.start);
      const to = Math.min(frame.start + frame.total, end);
      const x = margin + (from - zoomed.start) * scale;
      const shown = Math.max(to - from, 0) * scale;
      frame.g.style.display = shown < 0.2 ? 'none' : '';
      if (shown < 0.2) continue;
      frame.g.style.opacity = above ? 0.5 : 1;
      frame.rect.setAttribute('x', x);
      frame.rect.setAttribute('width', shown);
      let text = frame.g.querySelector('text');
      const cut = label(frame.name, Math.floor((shown - 6) / letter));
      if (!text && cut) {
        text = document.createElementNS(svg.namespaceURI, 'text');
        text.setAttribute('y', +frame.rect.getAttribute('y') + 12.5);
        frame.g.append(text);
      }
      if (text) {
        text.textContent = cut;
        text.setAttribute('x', x + 3);
      }
    }
    place.setAttribute('x', width - 330);
    tell(zoomed);
  };

  const tell = (frame) => { info.textContent = frame.title; };
  const zoom = (frame) => { zoomed = frame; draw(); };

  // The share of all time in functions whose names match. Matches inside of another match are not counted twice.
  const search = (words) => {
    const wanted = words.toLowerCase();
    let [time, until] = [0, 0];
    for (const frame of frames) {
      const hit = wanted && frame !== all && frame.name.toLowerCase().includes(wanted);
      frame.g.classList.toggle('hit', Boolean(hit));
      if (hit && frame.start >= until) {
        time += frame.total;
        until = frame.start + frame.total;
      }
    }
    const share = ((100 * time) / Math.max(all.total, 1)).toFixed(1);
    found.textContent = wanted ? `${share} % in matches` : '';
  };

  const html = (name) => document.createElementNS('http://www.w3.org/1999/xhtml', name);
  const place = document.createElementNS(svg.namespaceURI, 'foreignObject');
  for (const [name, value] of [['y', 5], ['width', 320], ['height', 26]]) place.setAttribute(name, value);
  const [input, found, reset] = [html('input'), html('span'), html('button')];
  const line = html('div');
  line.style.cssText = 'display:flex;gap:6px;align-items:center;justify-content:flex-end;font:11px sans-serif';
  input.placeholder = 'search';
  input.style.cssText = 'width:120px;font:inherit';
  reset.textContent = 'reset zoom';
  reset.style.cssText = 'font:inherit';
  line.append(found, input, reset);
  place.append(line);
  svg.append(place);

  input.addEventListener('input', () => search(input.value));
  reset.addEventListener('click', () => zoom(all));
  window.addEventListener('resize', draw);
  window.addEventListener('keydown', (event) => {
    if (event.key === 'Escape') {
      input.value = '';
      search('');
      zoom(all);
    } else if (event.key === '/' && event.target !== input) {
      event.preventDefault();
      input.focus();
    }
  });
  for (const frame of frames) {
    frame.g.addEventListener('click', () => zoom(frame));
    frame.g.addEventListener('mouseover', () => tell(frame));
  }
  svg.addEventListener('mouseleave', () => tell(zoomed));
  draw();
})();
