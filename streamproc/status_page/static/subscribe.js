// How to get the same as a program: topics, commands, a few lines of Python, files.

import { at, h, renew } from "/static/elements.js";
import { size } from "/static/words.js";

function commands(study) {
  const lines = [
    [`streamproc watch ${study}.toml`, "a line per column, as they come"],
    [`streamproc pull ${study}.toml --out public`, "everything released so far, as files"],
    [`streamproc verify ${study}.toml`, "the chain and every digest, recomputed"],
  ];
  const widest = Math.max(...lines.map(([command]) => command.length));
  return lines.map(([command, what]) => `${command.padEnd(widest)}  # ${what}`).join("\n");
}

// An embedded log is where the study file says, if the study file names this log; of Kafka's address the page knows nothing.
const program = (study, release, embedded) => `import asyncio, streamproc
from streamproc.ports.connect import connect
from streamproc.service.subscribe import subscribe

async def main():
    study = streamproc.read_study("${study}.toml")
    async with connect(${embedded ? "study.broker.url" : '"kafka://broker:9092"'}) as log:
        async for column in subscribe(log, study, "${release}"):
            print(column.period, column.panel)  # checked against the ledger

asyncio.run(main())`;

function place(study) {
  const where = "The topics are in a folder of the machine that runs this study. If the study file names that folder, the commands and the program work there, in the folder of the study file, here called ";
  return h("p", {}, where, h("code", {}, `${study}.toml`), ". From elsewhere, take the files.");
}

let made = null;

export function showSubscribe(status) {
  const key = JSON.stringify([status.study, status.releases.map((release) => [release.name, release.columns])]);
  if (key === made) return; // whoever is about to copy something keeps it
  made = key;
  const embedded = status.broker === "embedded";
  const topics = [[status.ledger_topic, "what was released, what it cost"], ...status.releases.map((release) => [release.topic, `columns of ${release.name}`])];
  renew(
    at("subscribe-body"),
    ...(embedded ? [place(status.study)] : []),
    h("h3", {}, "Topics"),
    h("ul", { class: "topics" }, topics.map(([topic, what]) => h("li", {}, h("code", {}, topic), copy(topic, topic), h("span", {}, what)))),
    h("h3", {}, "On the command line"),
    block(commands(status.study), "the commands"),
    h("h3", {}, "In Python"),
    block(program(status.study, status.releases[0].name, embedded), "the program"),
    h("h3", {}, "As files"),
    h("ul", { class: "files" }, status.releases.map(file)),
  );
}

function file(release) {
  if (release.columns === 0) return h("li", {}, `${release.name}: no column yet`);
  const about = release.column_bytes === null ? "" : `, packed ${size(release.column_bytes * release.columns)}`;
  return h("li", {}, h("a", { href: `/api/v1/releases/${release.name}.csv`, download: "" }, `${release.name}.csv`), ` ${release.columns} columns${about}`);
}

function block(text, what) {
  return h("div", { class: "code" }, h("pre", { tabindex: 0, role: "region", "aria-label": what }, h("code", {}, text)), copy(text, what));
}

function copy(text, what) {
  const button = h("button", { type: "button", class: "quiet copy", "aria-label": `Copy ${what}` }, "Copy");
  button.addEventListener("click", async () => {
    button.textContent = (await copied(text)) ? "Copied" : "Select it by hand";
    setTimeout(() => (button.textContent = "Copy"), 1600);
  });
  return button;
}

async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    // Over plain http a browser offers only the old way.
    const area = h("textarea", { class: "unseen", "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  }
}
