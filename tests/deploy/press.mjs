// Opens an address in headless Chromium, works through steps by the keyboard alone, and prints where it came to as JSON.
// usage: node press.mjs CHROMIUM URL STEPS; a step: {"to": NAME} Tab until that has the focus, {"press": KEY},
// {"type": TEXT}, {"open": URL}; {"wait": "load"} with a press that leads to another page
import { chromium } from "playwright-core";

const [program, url, steps] = process.argv.slice(2);
const browser = await chromium.launch({ executablePath: program, args: ["--no-sandbox", "--disable-gpu"] });
const page = await (await browser.newContext({ viewport: { width: 1280, height: 844 } })).newPage();
const messages = [];
page.on("console", (message) => messages.push(`${message.type()}: ${message.text()}`));
page.on("pageerror", (error) => messages.push(`error: ${error.message}`));
const most = 200;

function focused() {
  const one = document.activeElement;
  if (one === document.body) return "";
  return (one.labels?.[0]?.innerText ?? one.innerText ?? "").trim();
}

await page.goto(url, { waitUntil: "load" });
for (const step of JSON.parse(steps)) {
  if (step.open) await page.goto(step.open, { waitUntil: "load" });
  if (step.to) {
    let presses = 0;
    while (!(await page.evaluate(focused)).startsWith(step.to)) {
      presses += 1;
      if (presses > most) throw new Error(`nothing named ${step.to} is reached by Tab on ${page.url()}`);
      await page.keyboard.press("Tab");
    }
  }
  if (step.type) await page.keyboard.type(step.type);
  if (step.press) {
    const loaded = step.wait ? page.waitForNavigation({ waitUntil: "load" }) : Promise.resolve();
    await page.keyboard.press(step.press);
    await loaded;
  }
}
const text = await page.evaluate(() => document.body.innerText);
const cookies = (await page.context().cookies()).map(({ name, httpOnly, sameSite }) => ({ name, httpOnly, sameSite }));
process.stdout.write(JSON.stringify({ url: page.url(), text, messages, cookies }));
await browser.close();
