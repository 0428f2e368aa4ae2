// Opens a trace in speedscope, in a browser without a window. Takes a picture, and saves the trace
// as speedscope has understood it, in its own format.
//
// Usage: npm install speedscope playwright-core
//        node speedscope.mjs FILE OUT.png OUT.speedscope.json [PROFILE] [ZOOM_AT ZOOM_STEPS]
//
// PROFILE is the number of a thread, from 0. ZOOM_AT is a column of the picture, where the wheel
// zooms in by so many steps. CHROMIUM names the browser, /usr/bin/chromium if it is not set. Prints
// what speedscope says; fails if it can't read the file.

import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const require = createRequire(path.join(process.cwd(), "package.json"));
const { chromium } = require("playwright-core");
const root = path.join(path.dirname(require.resolve("speedscope/package.json")), "dist/release");
const types = { ".html": "text/html", ".js": "text/javascript", ".css": "text/css", ".wasm": "application/wasm" };
const [file, picture, saved, profile = "0", zoomAt, zoomSteps] = process.argv.slice(2);
const trace = `/trace/${path.basename(file)}`;

const server = createServer((request, response) => {
  const name = new URL(request.url, "http://localhost").pathname;
  const from = name === trace ? file : path.join(root, name === "/" ? "index.html" : name);
  try {
    const body = readFileSync(from);
    response.writeHead(200, { "content-type": types[path.extname(from)] ?? "application/octet-stream" });
    response.end(body);
  } catch {
    response.writeHead(404).end();
  }
});
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
const address = `http://127.0.0.1:${server.address().port}`;

// speedscope draws with WebGL, here without a graphics card. Nothing else may use the network.
const drawing = ["--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"];
const alone = ["quic", "background-networking", "component-update", "sync"].map((it) => `--disable-${it}`);
const options = ["--no-sandbox", "--no-first-run", ...drawing, ...alone];
const browser = await chromium.launch({ executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium", args: options });
const page = await browser.newPage({ viewport: { width: 900, height: 210 } });
const imported = page.waitForEvent("console", { predicate: (it) => it.text().startsWith("import:"), timeout: 60_000 });
page.on("console", (message) => {
  if (!/GL|Tried to end/.test(message.text())) console.log(message.text());
});
page.on("dialog", (dialog) => {
  console.error(dialog.message());
  process.exit(1);
});
const query = new URLSearchParams({ profileURL: address + trace });
await page.goto(`${address}/#${query}`);
await imported;
await page.waitForTimeout(1000);
const download = page.waitForEvent("download", { timeout: 60_000 });
await page.keyboard.press("Control+s");
await (await download).saveAs(saved);
for (let thread = 0; thread < Number(profile); thread++) await page.keyboard.press("n");
if (zoomAt) {
  await page.mouse.move(Number(zoomAt), 170);
  await page.keyboard.down("Control");
  for (let step = 0; step < Number(zoomSteps); step++) {
    await page.mouse.wheel(0, -100);
    await page.waitForTimeout(200);
  }
  await page.keyboard.up("Control");
}
await page.mouse.move(895, 205);
await page.waitForTimeout(1000);
await page.screenshot({ path: picture });
await browser.close();
server.close();
