// Opens pages in headless Chromium in every appearance and prints what was found.
// usage: node browse.mjs CHROMIUM
// A line of the standard input is a request, an array in JSON: FILE.html or URL; a folder for screenshots or "-"; a cookie
// NAME=VALUE or ""; names of appearances, "" for all. The answer is a line of JSON: {"found": ...} or {"error": TEXT}.
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf-8");
const appearances = [
  { name: "light", colorScheme: "light", width: 1280 },
  { name: "dark", colorScheme: "dark", width: 1280 },
  { name: "tablet", colorScheme: "light", width: 768 },
  { name: "phone-light", colorScheme: "light", width: 390 },
  { name: "phone-dark", colorScheme: "dark", width: 390 },
  { name: "print", colorScheme: "light", width: 794, media: "print" },
];

function inspect() {
  const root = document.documentElement;
  const marks = (svg) => svg.querySelectorAll(".mark, .node").length;
  const plots = [...document.querySelectorAll("figure svg[role=img]")];
  const seen = (svg) => svg.getBoundingClientRect().width > 0 && svg.getBoundingClientRect().height > 0;
  return {
    overflow: root.scrollWidth - root.clientWidth,
    plots: plots.length,
    unmarked: plots.filter((svg) => marks(svg) === 0 || !seen(svg)).map((svg) => svg.getAttribute("aria-label")),
    unnamed: plots.filter((svg) => !svg.getAttribute("aria-label")).length,
    outside: plots
      .flatMap((svg) => [...svg.querySelectorAll("text, .mark, .node")].map((part) => [svg, part]))
      .filter(([svg, part]) => {
        const a = svg.getBoundingClientRect();
        const b = part.getBoundingClientRect();
        return b.left < a.left - 1 || b.right > a.right + 1 || b.top < a.top - 1 || b.bottom > a.bottom + 1;
      })
      .map(([svg, part]) => `${svg.getAttribute("aria-label")}: ${part.textContent}`),
    smallest: Math.min(
      ...plots.flatMap((svg) => {
        const scale = svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
        return [...svg.querySelectorAll("text")].map((text) => parseFloat(getComputedStyle(text).fontSize) * scale);
      }),
    ),
    ground: getComputedStyle(document.body).backgroundColor,
  };
}

// Rows of one class look alike: axe, which takes seconds for thousands of numbers, sees the first of each class.
function thin() {
  for (const body of document.querySelectorAll("tbody")) {
    const seen = new Set();
    for (const row of [...body.rows]) {
      if (seen.has(row.className)) row.remove();
      seen.add(row.className);
    }
  }
}

// What somebody without a mouse cannot reach, or reaches without seeing where they are: Tab from the top to the end.
async function keyboard(page) {
  const stops = await page.evaluate(() => {
    const radios = new Set(); // one stop a group
    const all = [...document.querySelectorAll(`a[href], summary, [tabindex='0'], button, select, textarea, input`)]
      .filter((one) => one.checkVisibility() && one.type !== "hidden")
      .filter((one) => one.type !== "radio" || (!radios.has(one.name) && radios.add(one.name)));
    all.forEach((one, index) => one.setAttribute("data-stop", index));
    return all.length;
  });
  const reached = new Set();
  const unseen = [];
  for (let press = 0; press < stops; press += 1) {
    await page.keyboard.press("Tab");
    const here = await page.evaluate(() => {
      const one = document.activeElement;
      const look = getComputedStyle(one);
      const seen = look.outlineStyle !== "none" && parseFloat(look.outlineWidth) > 0;
      return { stop: one.getAttribute("data-stop"), seen, html: one.outerHTML.slice(0, 120) };
    });
    reached.add(here.stop);
    if (!here.seen) unseen.push(here.html);
  }
  reached.delete(null);
  return { stops, unreached: stops - reached.size, unseen };
}

// The appearances of one page, one after the other in a tab of a context that no other page has had.
async function visit(browser, file, folder, cookie, looks) {
  const served = file.startsWith("http:");
  const url = served ? file : pathToFileURL(file).href;
  const context = await browser.newContext({ bypassCSP: false });
  try {
    if (cookie) {
      const [name, value] = cookie.split("=");
      await context.addCookies([{ name, value, url }]);
    }
    const page = await context.newPage();
    const found = {};
    for (const look of appearances.filter((one) => !looks || looks.split(",").includes(one.name))) {
      const picture = folder === "-" ? undefined : join(folder, `${look.name}.png`);
      found[look.name] = await looked(page, url, served, look, picture);
    }
    return found;
  } finally {
    await context.close();
  }
}

async function looked(page, url, served, look, picture) {
  const own = served ? `${new URL(url).origin}/` : url;
  const messages = [];
  const requests = [];
  page.removeAllListeners();
  page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
  page.on("pageerror", (error) => messages.push(`error: ${error.message}`));
  page.on("request", (request) => requests.push(request.url()));
  await page.setViewportSize({ width: look.width, height: 844 });
  await page.emulateMedia({ colorScheme: look.colorScheme, media: look.media ?? "screen" });
  await page.goto(url, { waitUntil: "load" });
  const shut = await page.evaluate(inspect);
  if (picture) {
    await page.screenshot({ path: picture, fullPage: true });
  }
  await page.evaluate(() => document.querySelectorAll("details").forEach((one) => (one.open = true)));
  const open = await page.evaluate(inspect);
  const text = await page.evaluate(() => document.body.textContent);
  const keys = look.name === "light" ? await keyboard(page) : null;
  await page.evaluate(thin);
  await page.evaluate(axe);
  const faults = await page.evaluate(async () => {
    const result = await window.axe.run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa"] } });
    return result.violations.map((one) => ({ id: one.id, nodes: one.nodes.slice(0, 5).map((node) => node.html.slice(0, 200)) }));
  });
  return {
    ...shut,
    overflow: Math.max(shut.overflow, open.overflow),
    messages,
    requests: requests.filter((one) => one !== url && !one.startsWith("data:") && !(served && one.startsWith(own))),
    text,
    keys,
    faults,
  };
}

const browser = await chromium.launch({ executablePath: process.argv[2], args: ["--no-sandbox", "--disable-gpu"] });
for await (const line of createInterface({ input: process.stdin })) {
  let answer;
  try {
    answer = { found: await visit(browser, ...JSON.parse(line)) };
  } catch (error) {
    answer = { error: error.stack };
  }
  process.stdout.write(`${JSON.stringify(answer)}\n`);
}
await browser.close();
