// How to get the data: topics, commands, a Python program, and files.

import { byId, h, replaceContents } from "/static/elements.js";
import { formatBytes } from "/static/words.js";

function commands(study) {
  const lines = [
    [`streamproc watch ${study}.toml`, "a line per column, as they are released"],
    [`streamproc pull ${study}.toml --out public`, "everything released so far, as files"],
    [`streamproc verify ${study}.toml`, "verify the chain and every digest"],
  ];
  const widest = Math.max(...lines.map(([command]) => command.length));
  return lines.map(([command, what]) => `${command.padEnd(widest)}  # ${what}`).join("\n");
}

// The study file names the folder of an embedded log. The page does not know the address of Kafka brokers.
const program = (study, release, embedded) => `import asyncio
import streamproc as sp

async def main():
    study = sp.Study.load("${study}.toml")
    async with sp.connect(study${embedded ? "" : ', broker="kafka://broker:9092"'}) as stream:
        async for panel in stream.subscribe("${release}"):
            print(panel.period, panel)  # checked against the ledger

asyncio.run(main())`;

function describeFolder(study) {
  const where = "The topics are in a folder of the machine that runs this study. If the study file names that folder, the commands and the program work there, in the folder of the study file, here called ";
  return h("p", {}, where, h("code", {}, `${study}.toml`), ". From another machine, download the files.");
}

let shownKey = null;

export function showSubscribe(status) {
  const key = JSON.stringify([status.study, status.releases.map((release) => [release.name, release.columns])]);
  if (key === shownKey) return; // nothing has changed, and the reader may have selected text
  shownKey = key;
  const embedded = status.broker === "embedded";
  const topics = [[status.ledger_topic, "what was released and what it cost"], ...status.releases.map((release) => [release.topic, `columns of ${release.name}`])];
  replaceContents(
    byId("subscribe-body"),
    ...(embedded ? [describeFolder(status.study)] : []),
    h("h3", {}, "Topics"),
    h("ul", { class: "topics" }, topics.map(([topic, what]) => h("li", {}, h("code", {}, topic), copyButton(topic, topic), h("span", {}, what)))),
    h("h3", {}, "On the command line"),
    codeBlock(commands(status.study), "the commands"),
    h("h3", {}, "In Python"),
    codeBlock(program(status.study, status.releases[0].name, embedded), "the program"),
    h("h3", {}, "As files"),
    h("ul", { class: "files" }, status.releases.map(fileLink)),
  );
}

function fileLink(release) {
  if (release.columns === 0) return h("li", {}, `${release.name}: no column yet`);
  const packed = release.people === null ? `, packed ${formatBytes(release.column_bytes * release.columns)}` : `, the last one packed ${formatBytes(release.column_bytes)}; a cell is empty where a person is not present`;
  const about = release.column_bytes === null ? "" : packed;
  return h("li", {}, h("a", { href: `/api/v1/releases/${release.name}.csv`, download: "" }, `${release.name}.csv`), ` ${release.columns} columns${about}`);
}

function codeBlock(text, what) {
  return h("div", { class: "code" }, h("pre", { tabindex: 0, role: "region", "aria-label": what }, h("code", {}, text)), copyButton(text, what));
}

function copyButton(text, what) {
  const button = h("button", { type: "button", class: "quiet copy", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copyText(text)) ? "Copied" : "Select the text and copy it";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  return button;
}

async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain http browsers do not offer navigator.clipboard.
    const area = h("textarea", { class: "visually-hidden", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
