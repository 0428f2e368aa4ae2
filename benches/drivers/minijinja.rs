//! Renders a page about the words of a text, from a template with loops, conditions, macros and
//! filters.

use std::collections::BTreeMap;

use minijinja::{Environment, context};

const PAGE: &str = "\
{%- macro entry(word, times) -%}
  <li class=\"{{ 'often' if times > 9 else 'seldom' }}\">{{ word|e }}: {{ times }}</li>
{%- endmacro -%}
<h1>{{ title|upper }}</h1>
{% for line in lines -%}
  {% if line|trim -%}
    <p id=\"{{ loop.index }}\">{{ line|trim|replace('probe', 'PROBE') }} ({{ line|length }})</p>
  {%- else -%}<hr>{%- endif %}
{% endfor %}
<ul>{% for word, times in words|items %}{{ entry(word, times) }}{% endfor %}</ul>
{{ words|length }} words, {{ words|dictsort(by='value', reverse=true)|first|join('=') }}
";

pub fn work(text: &str, times: u64) -> usize {
    let mut environment = Environment::new();
    environment.add_template("page.html", PAGE).expect("a template");
    let lines: Vec<_> = text.lines().take(300).map(str::to_owned).collect();
    let mut words = BTreeMap::new();
    for word in lines.iter().flat_map(|line| line.split_whitespace()) {
        *words.entry(word.to_owned()).or_insert(0) += 1;
    }
    let page = environment.get_template("page.html").expect("it was added");
    let about = context! { title => "words", lines, words };
    let page = || page.render(about.clone()).expect("a page");
    (0..times).map(|_| page().len()).sum()
}
