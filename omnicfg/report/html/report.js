"use strict";
(() => {
  const PAGE = 250; // lines of the matrix that are made at a time
  const PRINTED = 5000; // and on paper
  const data = JSON.parse(document.getElementById("data").textContent);
  if (!data.profiles.length) return;
  const text = (number) => (number < 0 ? "" : data.texts[number]);
  const by = (id) => document.getElementById(id);
  const grid = by("grid"), tip = by("tip"), status = by("status"), search = by("q");

  /** An element of a tag with a class, holding text and elements. Nothing is ever parsed as HTML. */
  function make(tag, look, ...children) {
    const made = document.createElement(tag);
    if (look) made.className = look;
    made.append(...children.filter((child) => child !== null && child !== ""));
    return made;
  }
  const plural = (count, what) => `${count.toLocaleString("en")} ${what}${count === 1 ? "" : "s"}`;

  // ------------------------------------------------------------------------------------------------- what there is
  const rowWords = data.rows.map(() => null);
  /** What a row is found by: its key, values, layers and places. */
  function wordsOf(row) {
    if (rowWords[row] === null) {
      const numbers = new Set([data.rows[row][0]]);
      for (const cell of cellsOf(row)) if (cell >= 0) {
        const links = data.cells[cell][3];
        links.forEach((number, index) => index % 5 && numbers.add(number));
      }
      rowWords[row] = [...numbers].map(text).join("\n").toLowerCase();
    }
    return rowWords[row];
  }
  function cellsOf(row) {
    const cells = data.rows[row].slice(1);
    return cells.length === 1 ? Array(data.platforms.length).fill(cells[0]) : cells;
  }
  const profiles = data.profiles.map((profile, number) => {
    const places = new Map(); // place → findings there
    for (const each of profile.findings) places.set(each[1], [...(places.get(each[1]) ?? []), each]);
    const refused = data.platforms.map((platform) => platform in profile.refused);
    const placed = new Set();
    const own = data.platforms.map(() => 0); // values that come from the block of each platform
    for (const [stage, , rows] of profile.blocks) for (const row of rows) {
      cellsOf(row).forEach((cell, platform) => {
        if (cell >= 0 && text(data.cells[cell][0]) === "platform") own[platform] += 1;
        for (const finding of findingsAt({ places }, stage, cell, platform)) placed.add(finding);
      });
    }
    const changed = new Map(); // stage and key → [platforms, value before]
    const whole = new Set(); // stages that came or went
    for (const [stage, key, platforms, before] of profile.change?.settings ?? []) {
      if (!key) whole.add(stage);
      const name = `${stage}\n${key}`;
      changed.set(name, [...(changed.get(name) ?? []), [platforms, before]]);
    }
    return {
      ...profile, number, places, own, changed, whole, isRefused: refused,
      size: profile.blocks.reduce((sum, block) => sum + block[2].length, 0),
      words: [profile.name, profile.pipeline ?? "", ...profile.files].join("\n").toLowerCase(),
      loose: profile.findings.filter(([finding]) => !placed.has(finding)),
    };
  });
  const total = profiles.reduce((sum, profile) => sum + profile.size, 0);
  const severityOf = new Map([...document.querySelectorAll(".finding")].map((each) => [Number(each.id.slice(1)), each.dataset.severity]));
  const RANK = ["error", "warning", "note"];

  /** The findings that stand where a value, its key or what it won against is written, and mean this stage and platform. */
  function findingsAt({ places }, stage, cell, platform) {
    if (cell < 0 || !places.size) return [];
    const found = new Set();
    for (const place of data.cells[cell][2]) for (const [finding, , about, platforms] of places.get(place) ?? []) {
      if ((about < 0 || about === stage) && (!platforms.length || platforms.includes(platform))) found.add(finding);
    }
    return [...found];
  }
  /** The value before, where the row changed on a platform. */
  function beforeOf(profile, stage, key, platform) {
    if (!profile.changed.size) return null;
    const changes = profile.changed.get(`${stage}\n${key.replace(/^topology\./, "")}`) ?? [];
    const change = changes.find(([platforms]) => platforms.includes(platform));
    return change ? change[1] : profile.whole.has(stage) && stage >= 0 ? "(a stage that was not there)" : null;
  }

  // ------------------------------------------------------------------------------------------------- what is asked
  let tokens = [], shown = [], groups = [], limit = PAGE, lines = [];
  const opened = new Map(); // what somebody has opened or closed by hand
  const filters = { found: false, differs: false, changed: false };

  function ask() {
    tokens = (search.value.toLowerCase().match(/\S+/g) ?? []);
    const platform = by("platform")?.value;
    shown = data.platforms.map((_, index) => index).filter((index) => !platform || data.platforms[index] === platform);
    const setBy = by("set-by").value;
    groups = setBy.includes(",") ? setBy.split(",") : setBy.split(" ").filter(Boolean);
    for (const name of Object.keys(filters)) filters[name] = by(name)?.checked ?? false;
    limit = PAGE;
  }
  const isFiltered = () => tokens.length || groups.length || Object.values(filters).some(Boolean) || shown.length < data.platforms.length;

  const NEW = new Set(["added", "repaired"]); // there was nothing before: all of it is to be looked at
  function fits(profile, stage, title, row) {
    const cells = cellsOf(row), live = shown.filter((index) => !profile.isRefused[index]), seen = live.map((index) => cells[index]);
    if (seen.every((cell) => cell < 0)) return false;
    if (groups.length && !seen.some((cell) => cell >= 0 && groups.includes(text(data.cells[cell][0])))) return false;
    if (filters.differs && new Set(seen).size < 2) return false;
    if (filters.found && !live.some((index) => findingsAt(profile, stage, cells[index], index).length)) return false;
    if (filters.changed && !NEW.has(profile.change?.status) && !live.some((index) => beforeOf(profile, stage, text(data.rows[row][0]), index) !== null)) return false;
    return tokens.every((token) => profile.words.includes(token) || title.includes(token) || wordsOf(row).includes(token));
  }

  /** The lines of the matrix: profiles, and of those that are open blocks, findings and settings. */
  function choose() {
    lines = [];
    let settings = 0, count = 0;
    for (const profile of profiles) {
      const blocks = profile.blocks
        .map(([stage, title, rows]) => [stage, title, rows.filter((row) => fits(profile, stage, title.toLowerCase(), row))])
        .filter(([, , rows]) => rows.length);
      const named = tokens.every((token) => profile.words.includes(token));
      const bare = !profile.size && named && !groups.length && !filters.differs
        && (!filters.found || profile.findings.length) && (!filters.changed || profile.change);
      const loose = filters.found && profile.loose.length && named;
      if (isFiltered() && !blocks.length && !bare && !loose) continue;
      count += 1;
      settings += blocks.reduce((sum, block) => sum + block[2].length, 0);
      const asked = tokens.length || groups.length || Object.values(filters).some(Boolean);
      const isOpen = opened.get(profile.number) ?? (asked ? true : profiles.length <= 3);
      lines.push({ kind: "profile", profile, isOpen });
      if (!isOpen) continue;
      if (profile.left_out) lines.push({ kind: "about", note: "Left out: this report has reached its size. Name fewer paths." });
      const stages = new Set(blocks.map(([stage]) => stage));
      for (const finding of profile.loose) if (!stages.has(finding[2])) lines.push({ kind: "about", finding: finding[0] });
      for (const [stage, title, rows] of blocks) {
        lines.push({ kind: "block", title });
        for (const finding of profile.loose) if (finding[2] === stage && stage >= 0) lines.push({ kind: "about", finding: finding[0] });
        for (const row of rows) lines.push({ kind: "setting", profile, stage, title, row });
      }
    }
    const all = isFiltered() ? `${settings.toLocaleString("en")} of ${plural(total, "setting")} in ${count} of ${plural(profiles.length, "profile")}`
      : `${plural(total, "setting")} in ${plural(profiles.length, "profile")}`;
    status.textContent = `${all}.`;
  }

  // ------------------------------------------------------------------------------------------------- what is shown
  function header(name, scope = "col") {
    const made = make("th", "", name);
    made.scope = scope;
    return made;
  }
  function line(each) {
    const row = make("tr", each.kind);
    if (each.kind === "profile") profileLine(row, each);
    else if (each.kind === "block") {
      const head = header(make("span", "stay", each.title), "rowgroup");
      head.colSpan = shown.length + 1;
      row.append(head);
    } else if (each.kind === "about") {
      const cell = make("td", "", make("span", "stay", each.note ?? findingLink(each.finding)));
      cell.colSpan = shown.length + 1;
      row.append(cell);
    } else settingLine(row, each);
    return row;
  }
  /** The code of a finding and its message. */
  function toldBy(at) {
    return [at.querySelector(".code").textContent, " ", ...at.querySelector(".message").cloneNode(true).childNodes];
  }
  function findingLink(finding) {
    const at = by(`f${finding}`), severity = severityOf.get(finding);
    if (!at) return make("span", "", "a finding that is not shown");
    const link = make("a", "stop", ...toldBy(at));
    link.href = `#f${finding}`;
    link.tabIndex = -1;
    return make("span", "", make("span", `badge ${severity}`, severity), " ", link);
  }
  function profileLine(row, { profile, isOpen }) {
    const toggle = make("button", "toggle stop", profile.name);
    toggle.type = "button";
    toggle.tabIndex = -1;
    toggle.setAttribute("aria-expanded", String(isOpen));
    toggle.addEventListener("click", () => {
      opened.set(profile.number, !isOpen);
      draw();
      profileRow(profile.number)?.querySelector(".stop").focus();
    });
    const head = header(toggle, "row");
    if (profile.pipeline) head.append(" ", make("span", "pipeline", profile.pipeline));
    for (const severity of RANK) {
      const count = profile.findings.filter(([finding]) => severityOf.get(finding) === severity).length;
      if (count) head.append(" ", make("span", `badge ${severity}`, plural(count, severity)));
    }
    if (profile.change) head.append(" ", make("span", "badge changed", profile.change.status));
    row.dataset.profile = profile.number;
    row.append(head, ...shown.map((index) => stateCell(profile, index)));
  }
  function stateCell(profile, index) {
    const reason = profile.refused[data.platforms[index]];
    const count = profile.own[index];
    const words = reason === undefined ? (count ? `${plural(count, "value")} of its own` : "") : reason ? "does not compile" : "no values";
    const cell = make("td", "state", make("span", reason === undefined ? "by" : "refused", words));
    cell.tabIndex = -1;
    cell.classList.add("stop");
    const platform = data.platforms[index];
    const told = reason === undefined
      ? (count ? `${plural(count, "value")} ${count === 1 ? "comes" : "come"} from a block for ${platform} alone.` : `No value comes from a block for ${platform} alone.`)
      : reason || "There are no values: the pipeline is not known.";
    cell.about = () => [make("h3", "", profile.name), make("p", "where", `on ${platform}`), make("p", "", told)];
    return cell;
  }
  function settingLine(row, { profile, stage, title, row: number }) {
    const key = text(data.rows[number][0]), cells = cellsOf(number);
    row.append(header(named(key), "row"));
    const common = mostCommon(shown.filter((index) => !profile.isRefused[index]).map((index) => cells[index]));
    const faces = shown.map((index) => ({
      cell: cells[index],
      isRefused: profile.isRefused[index],
      before: beforeOf(profile, stage, key, index),
      found: findingsAt(profile, stage, cells[index], index),
    }));
    const alike = (one, other) => one.cell === other.cell && one.isRefused === other.isRefused && one.before === other.before
      && String(one.found) === String(other.found);
    for (let at = 0, end = 0; at < faces.length; at = end) {
      for (end = at + 1; end < faces.length && alike(faces[at], faces[end]); ) end += 1;
      const platforms = shown.slice(at, end).map((index) => data.platforms[index]);
      row.append(valueCell(profile, title, key, faces[at], platforms, faces[at].cell !== common));
    }
  }
  /** A key whose last part stays to be read where there is no room for all of it. */
  function named(key) {
    const cut = key.lastIndexOf(".", key.length - 2) + 1;
    return make("span", "key", cut ? make("span", "stem", key.slice(0, cut)) : null, make("span", "leaf", key.slice(cut)));
  }
  function mostCommon(cells) {
    const counts = new Map();
    for (const cell of cells) counts.set(cell, (counts.get(cell) ?? 0) + 1);
    return [...counts].reduce((best, each) => (each[1] > best[1] ? each : best))[0];
  }
  const IMPLIED = new Set(["default", "vllm default", "topology"]);
  function valueCell(profile, title, key, { cell, isRefused, before, found }, platforms, isOdd) {
    const made = make("td", "value stop");
    made.colSpan = platforms.length;
    made.tabIndex = -1;
    const worst = RANK.find((severity) => found.some((finding) => severityOf.get(finding) === severity));
    const face = make("span", "face");
    if (isRefused) face.append(make("span", "absent", "–", make("span", "sr", "does not compile")));
    else if (cell < 0) face.append(make("span", "absent", "not set"));
    else {
      const [layer, , , links] = data.cells[cell];
      face.append(make("code", "", text(links[1])), " ", make("span", "by", text(layer)));
      if (IMPLIED.has(text(layer))) made.classList.add("implied");
    }
    if (isOdd && !isRefused) made.classList.add("odd");
    if (before !== null) {
      made.classList.add("changed");
      face.append(" ", make("span", "badge changed", "Δ", make("span", "sr", "changed")));
    }
    if (worst) {
      made.classList.add(worst);
      face.append(" ", make("span", `badge ${worst}`, worst));
    }
    made.append(face);
    made.findings = found;
    made.about = () => story(profile, title, key, { cell, isRefused, before, found }, platforms);
    return made;
  }
  /** Everything behind a value: who set it, what it won against, what is known of it, what was found there. */
  function story(profile, title, key, { cell, isRefused, before, found }, platforms) {
    const where = platforms.length === data.platforms.length && platforms.length > 1 ? "all platforms" : platforms.join(", ");
    const parts = [make("h3", "", key), make("p", "where", `${profile.name}, ${title}, on ${where}`)];
    if (cell < 0) return [...parts, make("p", "", isRefused ? "The profile does not compile here." : "Not set here.")];
    const [, known, , links] = data.cells[cell];
    const chain = make("ol", "");
    for (let at = 0; at < links.length; at += 5) {
      const role = ["wins", "source", "lost"][links[at]];
      const [value, layer, place, reason] = links.slice(at + 1, at + 5).map(text);
      const told = role === "wins" ? "set by " : role === "source" ? "made from " : "lost, set by ";
      chain.append(make("li", role, make("code", "", value), make("span", "where", `${told}${layer}`, place ? `, ${place}` : ""), reason ? make("span", "", reason) : null));
    }
    parts.push(chain);
    if (before !== null) parts.push(make("p", "", make("span", "badge changed", "before"), " ", make("code", "", before)));
    if (known >= 0) parts.push(make("p", "", "Known of it here: ", text(known)));
    for (const finding of found) {
      const at = by(`f${finding}`), severity = severityOf.get(finding);
      if (at) parts.push(make("p", "", make("span", `badge ${severity}`, severity), " ", ...toldBy(at)));
    }
    return parts;
  }

  const profileRow = (number) => grid.querySelector(`tr[data-profile="${number}"]`);
  function head() {
    grid.style.setProperty("--columns", shown.length);
    return make("thead", "", make("tr", "", header("Setting"), ...shown.map((index) => header(data.platforms[index]))));
  }
  function draw() {
    choose();
    hide();
    const body = make("tbody", "", ...lines.slice(0, limit).map(line));
    if (lines.length > limit) body.append(rest());
    if (!lines.length) {
      const cell = make("td", "", make("span", "stay", "Nothing fits."));
      cell.colSpan = shown.length + 1;
      body.append(make("tr", "about", cell));
    }
    grid.replaceChildren(head(), body);
    const first = grid.querySelector(".stop");
    if (first) first.tabIndex = 0;
  }
  /** The way to the lines that have not been made yet. */
  function rest() {
    const more = make("button", "stop", `Show ${Math.min(PAGE, lines.length - limit).toLocaleString("en")} more of ${plural(lines.length - limit, "line")}`);
    more.type = "button";
    more.tabIndex = -1;
    more.addEventListener("click", () => {
      const at = grid.tBodies[0].rows.length - 1;
      limit += PAGE;
      const last = grid.tBodies[0].lastElementChild;
      last.replaceWith(...lines.slice(limit - PAGE, limit).map(line), ...(lines.length > limit ? [rest()] : []));
      move(grid.tBodies[0].rows[at]?.querySelector(".stop"));
    });
    const cell = make("td", "", make("span", "stay", more));
    cell.colSpan = shown.length + 1;
    return make("tr", "about rest", cell);
  }

  // ------------------------------------------------------------------------------------------- pointer and keyboard
  let owner = null, timer = 0;
  function tell(cell) {
    clearTimeout(timer);
    if (!cell?.about) return;
    if (owner !== cell) hide();
    owner = cell;
    tip.replaceChildren(...cell.about());
    tip.hidden = false;
    cell.setAttribute("aria-describedby", "tip");
    const at = cell.getBoundingClientRect(), box = tip.getBoundingClientRect(), gap = 4;
    const below = at.bottom + gap + box.height <= innerHeight - gap || at.top - gap - box.height < gap;
    tip.style.top = `${Math.max(gap, Math.min(below ? at.bottom + gap : at.top - gap - box.height, innerHeight - gap - box.height))}px`;
    tip.style.left = `${Math.max(gap, Math.min(at.left, innerWidth - gap * 3 - box.width))}px`;
  }
  function hide() {
    clearTimeout(timer);
    owner?.removeAttribute("aria-describedby");
    owner = null;
    tip.hidden = true;
  }
  const soon = (action, delay) => { clearTimeout(timer); timer = setTimeout(action, delay); };
  grid.addEventListener("pointerover", (event) => {
    const cell = event.target.closest("td.stop");
    if (cell && cell !== owner) soon(() => tell(cell), 150);
    else if (cell) clearTimeout(timer);
  });
  grid.addEventListener("pointerout", (event) => {
    if (event.target.closest("td.stop") && !event.relatedTarget?.closest?.("#tip")) soon(settle, 250);
  });
  tip.addEventListener("pointerenter", () => clearTimeout(timer));
  tip.addEventListener("pointerleave", () => soon(settle, 250));
  /** Once the pointer has gone, the cell that has the focus tells its story again. */
  function settle() {
    const cell = document.activeElement?.closest?.("#grid td.stop");
    if (cell && cell.matches(":focus-visible")) tell(cell);
    else hide();
  }
  grid.addEventListener("focusin", (event) => {
    const stop = event.target.closest(".stop");
    if (!stop) return;
    for (const each of grid.querySelectorAll('.stop[tabindex="0"]')) each.tabIndex = -1;
    stop.tabIndex = 0;
    if (stop.about) tell(stop);
    else hide();
  });
  grid.addEventListener("focusout", () => soon(settle, 50));
  document.addEventListener("keydown", (event) => { if (event.key === "Escape" && !tip.hidden) hide(); });
  grid.closest(".scroll").addEventListener("scroll", () => { if (owner && !owner.matches(":focus")) hide(); else if (owner) tell(owner); }, { passive: true });
  addEventListener("scroll", () => { if (owner && !owner.matches(":focus")) hide(); else if (owner) tell(owner); }, { passive: true });

  function move(stop) {
    if (!stop) return;
    stop.focus({ preventScroll: true });
    stop.scrollIntoView({ block: "nearest", inline: "nearest" });
    const top = grid.tHead.getBoundingClientRect().bottom - stop.getBoundingClientRect().top;
    const left = stop.tagName === "TD" ? (stop.closest("tr").querySelector("th")?.getBoundingClientRect().right ?? 0) - stop.getBoundingClientRect().left : 0;
    if (top > 0 || left > 0) grid.closest(".scroll").scrollBy({ top: -Math.max(0, top), left: -Math.max(0, left), behavior: "instant" });
  }
  /** The first column that a stop covers, counted in platforms; that of a name is -1. */
  function columnOf(stop) {
    let column = -1;
    for (const cell of stop.closest("tr").cells) {
      if (cell.contains(stop)) return cell.tagName === "TH" ? -1 : column;
      column += cell.tagName === "TH" ? 1 : cell.colSpan;
    }
    return column;
  }
  function inRow(row, column) {
    const stops = [...row.querySelectorAll(".stop")];
    const covers = (stop) => stop.tagName === "TD" && columnOf(stop) <= column && column < columnOf(stop) + stop.colSpan;
    return stops.find(covers) ?? stops[0] ?? null;
  }
  function beyond(row, column, step, count) {
    let found = null;
    for (let each = row; each && count; ) {
      each = step > 0 ? each.nextElementSibling : each.previousElementSibling;
      const stop = each && inRow(each, column);
      if (stop) { found = stop; count -= 1; }
    }
    return found;
  }
  let column = -1; // that up and down keep to
  grid.addEventListener("keydown", (event) => {
    const stop = event.target.closest(".stop");
    if (!stop || event.altKey || event.metaKey) return;
    const row = stop.closest("tr"), stops = [...row.querySelectorAll(".stop")], all = grid.querySelectorAll("tbody .stop");
    if (!["ArrowUp", "ArrowDown", "PageUp", "PageDown"].includes(event.key)) column = -1;
    const at = column < 0 ? columnOf(stop) : column;
    const targets = {
      ArrowLeft: () => stops[stops.indexOf(stop) - 1],
      ArrowRight: () => stops[stops.indexOf(stop) + 1],
      ArrowUp: () => beyond(row, at, -1, 1),
      ArrowDown: () => beyond(row, at, 1, 1),
      PageUp: () => beyond(row, at, -1, 15),
      PageDown: () => beyond(row, at, 1, 15),
      Home: () => (event.ctrlKey ? all[0] : stops[0]),
      End: () => (event.ctrlKey ? all[all.length - 1] : stops[stops.length - 1]),
    };
    if (event.key === "Enter" && stop.findings?.length) {
      event.preventDefault();
      visit(`f${stop.findings[0]}`);
    } else if (targets[event.key]) {
      event.preventDefault();
      const target = targets[event.key]();
      if (["ArrowUp", "ArrowDown", "PageUp", "PageDown"].includes(event.key)) column = at;
      move(target);
    }
  });

  // ------------------------------------------------------------------------------------------- findings and changes
  const wordsIn = new WeakMap();
  function says(element, token) {
    if (!wordsIn.has(element)) wordsIn.set(element, element.textContent.toLowerCase());
    return wordsIn.get(element).includes(token);
  }
  function sift() {
    const chips = [...document.querySelectorAll(".chip")];
    const severities = new Set(chips.filter((chip) => chip.ariaPressed === "true").map((chip) => chip.dataset.severity));
    for (const section of document.querySelectorAll("#findings, #changes")) {
      let left = 0;
      const files = section.querySelectorAll(".file");
      for (const file of files) {
        const path = file.querySelector("summary .path");
        const entries = file.querySelectorAll(".finding, .changes tbody tr");
        let kept = 0;
        for (const entry of entries) {
          const fit = tokens.every((token) => says(entry, token) || says(path, token))
            && (!entry.dataset.severity || severities.has(entry.dataset.severity));
          entry.hidden = !fit;
          kept += fit;
        }
        file.hidden = entries.length ? !kept : !tokens.every((token) => says(file, token));
        left += !file.hidden;
      }
      const nothing = section.querySelector(".nothing");
      if (nothing) nothing.hidden = left > 0 || !files.length;
    }
  }
  /** Go to a finding, wherever it is folded away. */
  function visit(id) {
    const target = by(id);
    if (!target) return;
    for (let each = target.parentElement; each; each = each.parentElement) if (each.tagName === "DETAILS") each.open = true;
    if (target.hidden) {
      search.value = "";
      for (const chip of document.querySelectorAll(".chip")) chip.ariaPressed = "true";
      renew();
    }
    target.focus();
    target.scrollIntoView({ block: "center" });
  }
  function visitProfile(number) {
    if (!profileRow(number)) reset();
    opened.set(number, true);
    draw();
    while (!profileRow(number) && limit < lines.length) { limit += PAGE; draw(); }
    by("matrix").scrollIntoView({ behavior: "instant" });
    const row = profileRow(number);
    row.closest(".scroll").scrollTop += row.getBoundingClientRect().top - grid.tHead.getBoundingClientRect().bottom;
    row.querySelector(".stop").focus({ preventScroll: true });
  }
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    if (link.dataset.profile !== undefined) {
      event.preventDefault();
      visitProfile(Number(link.dataset.profile));
    } else if (/^#f\d+$/.test(link.getAttribute("href"))) {
      event.preventDefault();
      visit(link.getAttribute("href").slice(1));
    }
  });

  // ------------------------------------------------------------------------------------------------------- controls
  function renew() {
    ask();
    draw();
    sift();
  }
  function reset() {
    by("filters").reset();
    search.value = "";
    opened.clear();
    renew();
  }
  search.addEventListener("input", () => { opened.clear(); renew(); });
  by("filters").addEventListener("change", () => { opened.clear(); renew(); });
  by("filters").addEventListener("submit", (event) => event.preventDefault());
  for (const [id, isOpen] of [["expand", true], ["collapse", false]]) {
    by(id).addEventListener("click", () => {
      for (const profile of profiles) opened.set(profile.number, isOpen);
      limit = PAGE;
      draw();
    });
  }
  by("start-over").addEventListener("click", reset);
  for (const chip of document.querySelectorAll(".chip")) {
    chip.addEventListener("click", () => {
      chip.ariaPressed = String(chip.ariaPressed !== "true");
      sift();
    });
  }
  // On paper everything is unfolded, and the lines that have not been made yet are there.
  let folded = [];
  addEventListener("beforeprint", () => {
    hide();
    folded = [...document.querySelectorAll("details:not([open])")];
    for (const each of folded) each.open = true;
    if (lines.length > limit) {
      limit = PRINTED;
      draw();
    }
  });
  addEventListener("afterprint", () => { for (const each of folded) each.open = false; });
  renew();
})();
