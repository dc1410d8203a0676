// Conveniences by script. Everything on the page works without them.
(() => {
  "use strict";
  const root = document.body.dataset.root;
  const $ = (id) => document.getElementById(id);
  document.documentElement.classList.add("scripted");

  // ---- times: local time on hover; relative times keep going ------------------------------------------------------

  const UNITS = [["d", 86400e3], ["h", 3600e3], ["min", 60e3], ["s", 1e3]];
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  let ahead = 0; // ms that this clock is ahead of the server's

  function length(ms) {
    if (ms < 10e3) return `${Math.floor(ms / 1e3)}\u202fs`;
    for (let index = 0; index < UNITS.length; index++) {
      const [unit, worth] = UNITS[index];
      if (ms < worth) continue;
      const [smaller, part] = UNITS[index + 1] ?? ["", Infinity];
      const rest = Math.floor((ms % worth) / part);
      return `${Math.floor(ms / worth)}\u202f${unit}` + (rest ? ` ${rest}\u202f${smaller}` : "");
    }
    return "";
  }

  function times() {
    const now = Date.now() - ahead;
    for (const time of document.querySelectorAll("time[title]")) {
      const at = Date.parse(time.dateTime);
      if (Number.isNaN(at)) continue;
      const away = at - now;
      const text = Math.abs(away) < 1e3 ? "now" : away > 0 ? `in ${length(away)}` : `${length(-away)} ago`;
      if (time.textContent !== text) time.textContent = text;
    }
  }

  function local(time) {
    if (time.dataset.local) return;
    const at = new Date(time.dateTime);
    if (Number.isNaN(at.getTime())) return;
    time.dataset.local = "1";
    time.title += `\n${at.toLocaleString(undefined, { dateStyle: "medium", timeStyle: "long" })}`;
  }

  function clock() {
    const seen = document.querySelector("time[data-clock]");
    if (seen) ahead = Date.now() - Date.parse(seen.dateTime);
  }

  document.addEventListener("mouseover", (event) => {
    const time = event.target.closest?.("time[title]");
    if (time) local(time);
  });
  clock();
  if ($("zone")) $("zone").textContent = `hover for ${zone}`;
  setInterval(times, 1000);

  // ---- the stream: does it live? ----------------------------------------------------------------------------------

  const stream = $("stream");
  const live = (is) => {
    if (!stream) return;
    stream.classList.toggle("live", is);
    stream.classList.toggle("away", !is);
    stream.title = is ? "The page is live" : "The server does not answer; what you see is old. Trying again.";
  };
  document.addEventListener("htmx:sse:after:message", () => { live(true); clock(); });
  for (const name of ["htmx:sse:error", "htmx:sse:close"]) document.addEventListener(name, () => live(false));
  document.addEventListener("htmx:sse:error", (event) => {
    if (event.detail.status === 401) location.reload(); // the token has ended: show the form
  });
  document.addEventListener("htmx:sse:before:connection", (event) => {
    if (event.detail.connection.attempt > 0) live(false);
  });

  // ---- the forecast: the contents of a bar ------------------------------------------------------------------------

  const clockText = (at) => new Date(at).toISOString().slice(11, 19);

  function bar(plot, x) {
    const box = plot.getBoundingClientRect();
    const counts = plot.dataset.counts.split(",").map(Number);
    const part = Math.floor(((x - box.left) / box.width) * counts.length);
    if (part < 0 || part >= counts.length) return null;
    const step = Number(plot.dataset.step);
    const from = Date.parse(plot.dataset.start) + part * step;
    return { from, until: from + step, count: counts[part], box, share: (part + 0.5) / counts.length };
  }

  // Outside the chart: live updates replace the chart while the pointer rests.
  const tip = document.createElement("div");
  tip.className = "tip";
  tip.setAttribute("aria-hidden", "true"); // the chart has a label and a table
  let over = null; // where the pointer is

  function showTip() {
    const found = over?.plot.isConnected && bar(over.plot, over.x);
    if (!found) { tip.remove(); return; }
    const more = found.count >= Number(over.plot.dataset.most) ? " or more" : "";
    const count = found.count.toLocaleString("en").replaceAll(",", "\u202f");
    const what = over.plot.dataset.what ?? (found.count === 1 ? "job" : "jobs");
    tip.textContent = `${clockText(found.from)} to ${clockText(found.until)} UTC: ${count}${more} ${what}`;
    const left = found.share < 0.5;
    const x = found.box.left + found.box.width * found.share;
    tip.style.left = left ? `${x}px` : "auto";
    tip.style.right = left ? "auto" : `${document.documentElement.clientWidth - x}px`;
    tip.style.top = `${found.box.top}px`;
    if (!tip.isConnected) document.body.append(tip);
  }

  document.addEventListener("pointermove", (event) => {
    const plot = event.target.closest?.(".plot");
    over = plot ? { plot, x: event.clientX } : null;
    showTip();
  });
  document.addEventListener("scroll", () => { over = null; showTip(); }, { passive: true });
  document.addEventListener("htmx:sse:after:message", showTip);
  document.addEventListener("click", (event) => {
    const plot = event.target.closest?.(".plot");
    const found = plot && bar(plot, event.clientX);
    if (!found || !found.count || plot.dataset.what) return; // bars of ended jobs lead nowhere
    const query = new URLSearchParams({ state: "delayed" });
    if (plot.dataset.topic) query.set("topic", plot.dataset.topic);
    query.set("due_from", new Date(found.from).toISOString());
    query.set("due_until", new Date(found.until - 1).toISOString());
    location.assign(`${root}/jobs?${query}`);
  });

  // ---- forms ------------------------------------------------------------------------------------------------------

  document.addEventListener("submit", (event) => {
    const sure = event.submitter?.dataset.sure;
    if (sure && !confirm(sure)) event.preventDefault();
  });
  document.addEventListener("change", (event) => {
    if (!event.target.matches("[data-all]")) return;
    for (const box of document.querySelectorAll("#bulk input[name=id]")) box.checked = event.target.checked;
  });
  // Empty fields stay out of the address.
  document.addEventListener("htmx:config:request", (event) => {
    const { request, sourceElement } = event.detail.ctx;
    if (sourceElement.id !== "search") return;
    for (const [name, value] of [...request.body]) if (!value) request.body.delete(name);
  });
  document.addEventListener("htmx:after:swap", () => { clock(); times(); });

  // ---- keys -------------------------------------------------------------------------------------------------------

  const help = $("help");
  $("help-button")?.addEventListener("click", () => help.showModal());
  let went = 0;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.matches("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      const field = document.querySelector("[data-search]");
      if (field) { field.focus(); field.select(); } else location.assign(`${root}/jobs#topic`);
    } else if (event.key === "?" && help && !help.open) {
      help.showModal();
    } else if (event.key === "g") {
      went = Date.now();
    } else if (Date.now() - went < 1500) {
      went = 0;
      document.querySelector(`nav [data-key="${CSS.escape(event.key)}"]`)?.click();
    }
  });
  if (location.hash === "#topic") document.querySelector("[data-search]")?.focus();
})();
