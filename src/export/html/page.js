/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The page of the HTML export: reads the JSON document in #data and draws it. Text of the profile
 * reaches the page through textContent only. Nothing is fetched, nothing is stored.
 */
"use strict";

const data = JSON.parse(document.getElementById("data").textContent);
const ROW_PX = 20;
const SPANS_MAX = 1000;
const view = { endpoint: 0, name: null, span: null, find: "" };

const STATES = [
	["on-cpu", "on-CPU", "--cpu"], ["run-queue", "run queue", "--runq"],
	["lock", "lock", "--lock"], ["condition", "condition", "--condition"],
	["sleep", "sleep", "--sleep"], ["poll", "poll", "--poll"],
	["net", "net", "--net"], ["io", "io", "--io"], ["disk", "disk", "--disk"],
	["fault", "page fault", "--fault"], ["child", "child", "--other"],
	["other", "other wait", "--other"], ["blocked", "wait, cause unknown", "--other"],
];
const STATE_COLOR = new Map(STATES.map(([key, , color]) => [key, `var(${color})`]));
const STATE_LABEL = new Map(STATES.map(([key, label]) => [key, label]));

const byId = (id) => document.getElementById(id);
const ms = (ns) => (ns / 1e6).toFixed(1);
const short = (text) => (text.length > 120 ? text.slice(0, 117) + "..." : text || "[unnamed]");
const percent = (part, whole) => (whole ? (100 * part / whole).toFixed(1) : "0.0") + " %";

function element(tag, text, className) {
	const e = document.createElement(tag);

	if (text !== undefined)
		e.textContent = text;
	if (className)
		e.className = className;
	return e;
}

function duration(ns) {
	if (ns < 1e3)
		return ns + " ns";
	if (ns < 1e6)
		return (ns / 1e3).toFixed(1) + " us";
	return ns < 1e9 ? (ns / 1e6).toFixed(1) + " ms" : (ns / 1e9).toFixed(2) + " s";
}

function stateOf(sample) {
	return sample.kind === "blocked" ? sample.cause || "blocked" : sample.kind;
}

function stateFrame(sample) {
	if (sample.kind === "on-cpu")
		return null;
	return sample.kind === "run-queue" ? "[run queue]" :
	       sample.cause ? `[blocked: ${sample.cause}]` : "[blocked]";
}

function frameStep(index) {
	const f = data.frames[index];
	const where = f.file ? short(f.file) + (f.line ? ":" + f.line : "") : "";

	return { key: `${f.function}\0${f.inlined ? 1 : 0}`, text: f.function, where,
		 inlined: f.inlined, kernel: f.kernel, made: f.synthetic };
}

function locationSteps(index) {
	const location = data.locations[index];
	const module = data.modules[location.module];

	return location.frames.slice().reverse().map((i) => {
		const step = frameStep(i);

		step.module = module ? module.path : "";
		return step;
	});
}

const stepsOfStack = new Map();

/* The frames of a sample, root first, and what the thread waited for, when it did. */
function stepsOf(sample) {
	let steps = stepsOfStack.get(sample.stack);

	if (!steps) {
		const stack = data.stacks[sample.stack];

		steps = stack ? stack.locations.slice().reverse().flatMap(locationSteps) : [];
		stepsOfStack.set(sample.stack, steps);
	}
	const state = stateFrame(sample);

	return state ? steps.concat({ key: state, text: state, where: "", made: true }) : steps;
}

function newNode(step, parent) {
	return { step, parent, total: 0, self: 0, count: 0, states: new Map(), children: new Map() };
}

function addTo(node, sample) {
	const state = stateOf(sample);

	node.total += sample.wall_ns;
	node.count += sample.count;
	node.states.set(state, (node.states.get(state) || 0) + sample.wall_ns);
}

function buildTree(spans) {
	const text = spans.length === 1 ? `span ${spans[0].id}` : `${spans.length} spans`;
	const root = newNode({ key: "", text, where: "", made: true }, null);

	for (const span of spans)
		for (const sample of span.samples) {
			let node = root;

			addTo(node, sample);
			for (const step of stepsOf(sample)) {
				let child = node.children.get(step.key);

				if (!child) {
					child = newNode(step, node);
					node.children.set(step.key, child);
				}
				addTo(child, sample);
				node = child;
			}
			node.self += sample.wall_ns;
		}
	return root;
}

function flameRects(spans) {
	const root = buildTree(spans);
	const rects = [];
	const todo = [[root, 0, 0, null]];

	while (todo.length) {
		const [node, depth, x, parent] = todo.pop();
		const rect = { node, depth, x, w: node.total, parent, children: [] };
		const children = [...node.children.values()].sort((a, b) => b.total - a.total);
		let at = x;

		rects.push(rect);
		if (parent)
			parent.children.push(rect);
		const next = children.map((child) => {
			const item = [child, depth + 1, at, rect];

			at += child.total;
			return item;
		});
		todo.push(...next.reverse());
	}
	return rects;
}

/* Samples in the order of time; equal frames of neighbours become one rectangle. */
function timeRects(span) {
	const rects = [];
	const states = [];
	const open = [];
	const samples = span.samples.slice().sort((a, b) => a.start_ns - b.start_ns);
	let at = 0;

	for (const sample of samples) {
		const steps = stepsOf(sample);
		let same = 0;

		while (same < open.length && same < steps.length &&
		       open[same].node.step.key === steps[same].key)
			same++;
		open.length = same;
		for (let d = same; d < steps.length; d++) {
			const parent = open[d - 1] || null;
			const rect = { node: newNode(steps[d], parent && parent.node), depth: d, x: at, w: 0,
				       parent, children: [] };

			if (parent)
				parent.children.push(rect);
			rects.push(rect);
			open.push(rect);
		}
		for (const rect of open) {
			addTo(rect.node, sample);
			rect.w += sample.wall_ns;
		}
		if (open.length)
			open[open.length - 1].node.self += sample.wall_ns;
		states.push({ x: at, w: sample.wall_ns, state: stateOf(sample) });
		at += sample.wall_ns;
	}
	return { rects, states, total: at };
}

/* The state that holds most of a node's time. */
function mainState(node) {
	let best = "on-cpu";
	let most = -1;

	for (const [state, ns] of node.states)
		if (ns > most) {
			best = state;
			most = ns;
		}
	return best;
}

function colorOf(node) {
	const plain = STATE_COLOR.get(mainState(node)) || "var(--other)";

	if (node.step.made && !node.step.text.startsWith("[blocked") &&
	    !node.step.text.startsWith("[run queue"))
		return `color-mix(in srgb, ${plain} 25%, var(--synthetic))`;
	return plain;
}

function describe(target, node, whole) {
	const step = node.step;
	const states = [...node.states].sort((a, b) => b[1] - a[1])
		.map(([state, ns]) => `${STATE_LABEL.get(state) || state} ${ms(ns)}`).join(", ");
	const tags = [step.inlined && "inlined", step.kernel && "kernel"].filter(Boolean).join(", ");
	const place = [step.where, step.module, tags].filter(Boolean).join("  ");

	target.replaceChildren(element("b", short(step.text)), document.createTextNode(
		(place ? "  " + place : "") + `: ${ms(node.total)} ms (${percent(node.total, whole)}), self ` +
		`${ms(node.self)} ms, ${node.count} snapshots; ${states}`));
}

/* A chart of rectangles with a zoom and a place of its own; both charts of the page are one. */
class Chart {
	constructor(id, detail, onZoom) {
		this.box = byId(id);
		this.detail = byId(detail);
		this.onZoom = onZoom;
		this.rects = [];
		this.box.addEventListener("click", (e) => this.clicked(e));
		this.box.addEventListener("mousemove", (e) => this.hovered(e));
		this.box.addEventListener("keydown", (e) => this.key(e));
	}

	set(rects) {
		this.rects = rects;
		this.zoom = null;
		this.active = rects[0] || null;
		this.draw();
	}

	range() {
		const first = this.rects.filter((r) => r.depth === 0);
		const last = first[first.length - 1];

		if (this.zoom)
			return [this.zoom.x, this.zoom.w];
		return last ? [first[0].x, last.x + last.w - first[0].x] : [0, 1];
	}

	above(rect) {
		for (let r = this.zoom; r; r = r.parent)
			if (r === rect)
				return true;
		return false;
	}

	draw() {
		const [from, width] = this.range();
		const pixels = this.box.clientWidth || 1000;
		const parts = document.createDocumentFragment();
		let depth = 0;

		this.shown = [];
		for (const rect of this.rects) {
			const left = Math.max(rect.x, from);
			const right = Math.min(rect.x + rect.w, from + width);
			const wide = (right - left) / width * pixels;
			const e = element("div");

			if (wide < 1)
				continue;
			e.id = `${this.box.id}-${this.shown.length}`;
			e.setAttribute("role", "treeitem");
			e.setAttribute("aria-level", rect.depth + 1);
			e.setAttribute("aria-label", rect.node.step.text);
			e.textContent = wide < 16 ? "" : rect.node.step.text;
			e.style.padding = wide < 16 ? "0" : "";
			e.title = `${rect.node.step.text}\n${ms(rect.node.total)} ms`;
			e.style.left = 100 * (left - from) / width + "%";
			e.style.width = 100 * (right - left) / width + "%";
			e.style.top = rect.depth * ROW_PX + "px";
			e.style.background = colorOf(rect.node);
			e.classList.toggle("faded", this.above(rect) && rect !== this.zoom);
			e.classList.toggle("match", matches(rect.node));
			rect.element = e;
			e.rect = rect;
			this.shown.push(rect);
			parts.append(e);
			depth = Math.max(depth, rect.depth);
		}
		this.box.replaceChildren(parts);
		this.box.style.height = (depth + 1) * ROW_PX + 2 + "px";
		this.mark(this.active, false);
		if (this.onZoom)
			this.onZoom(from, width);
	}

	mark(rect, scroll) {
		for (const e of this.box.querySelectorAll(".active"))
			e.classList.remove("active");
		this.active = rect;
		if (!rect) {
			this.detail.textContent = "";
			return;
		}
		if (rect.element && rect.element.isConnected) {
			rect.element.classList.add("active");
			this.box.setAttribute("aria-activedescendant", rect.element.id);
			if (scroll)
				rect.element.scrollIntoView({ block: "nearest" });
		}
		describe(this.detail, rect.node, this.rects[0].parent ? rect.w : this.whole());
	}

	whole() {
		return this.rects.filter((r) => r.depth === 0).reduce((sum, r) => sum + r.w, 0);
	}

	zoomTo(rect) {
		this.zoom = rect && rect.depth > 0 ? rect : null;
		this.active = rect || this.rects[0];
		this.draw();
	}

	clicked(event) {
		const rect = event.target.rect;

		if (rect)
			this.zoomTo(rect);
	}

	hovered(event) {
		const rect = event.target.rect;

		if (rect)
			describe(this.detail, rect.node, this.whole());
	}

	beside(step) {
		const row = this.shown.filter((r) => r.depth === this.active.depth)
			.sort((a, b) => a.x - b.x);

		return row[row.indexOf(this.active) + step];
	}

	key(event) {
		const moves = {
			ArrowUp: () => this.active.parent,
			ArrowDown: () => this.active.children.find((r) => r.element && r.element.isConnected),
			ArrowLeft: () => this.beside(-1),
			ArrowRight: () => this.beside(1),
			Home: () => this.rects[0],
		};

		if (!this.active)
			return;
		if (moves[event.key]) {
			const rect = moves[event.key]();

			if (rect)
				this.mark(rect, true);
		} else if (event.key === "Enter" || event.key === " ") {
			this.zoomTo(this.active);
		} else if (event.key === "Escape") {
			this.zoomTo(null);
		} else {
			return;
		}
		event.preventDefault();
	}
}

function matches(node) {
	return view.find !== "" && node.step.text.toLowerCase().includes(view.find);
}

function drawAxis(from, width) {
	const box = byId("axis");
	const marks = [];

	if (!timeStates.length) {
		box.replaceChildren();
		byId("states").replaceChildren();
		return;
	}
	for (let i = 0; i <= 5; i++) {
		const e = element("span", ms(from + width * i / 5) + " ms");

		e.style.left = 20 * i + "%";
		marks.push(e);
	}
	box.replaceChildren(...marks);
	byId("states").replaceChildren(...timeStates.flatMap((s) => {
		const left = Math.max(s.x, from);
		const right = Math.min(s.x + s.w, from + width);
		const e = element("div");

		if (right <= left)
			return [];
		e.style.left = 100 * (left - from) / width + "%";
		e.style.width = 100 * (right - left) / width + "%";
		e.style.background = STATE_COLOR.get(s.state) || "var(--other)";
		return [e];
	}));
}

let timeStates = [];
const flame = new Chart("flame", "detail", null);
const time = new Chart("time", "time-detail", drawAxis);

/* The spans of the endpoint and name that are chosen, longest first. */
function chosenSpans() {
	return data.spans.slice(1)
		.filter((s) => s.endpoint === view.endpoint && (view.name === null || s.name === view.name))
		.sort((a, b) => b.duration_ns - a.duration_ns);
}

function drawFigures() {
	const e = data.endpoints[view.endpoint];
	const parts = e ? [`${e.calls} ${data.run.population || "calls"}`, `p50 ${duration(e.p50_ns)}`, `p99 ${duration(e.p99_ns)}`,
			   `max ${duration(e.max_ns)}`,
			   `${e.slow} slower than ${duration(e.threshold_ns)}`, `${e.profiled} profiled`,
			   `${e.unfinished} unfinished`,
			   ...(e.unwound ? [`${e.unwound} left by exception or longjmp`] : []),
			   ...(e.end_unknown ? [`${e.end_unknown} ends not seen`] : []),
			   `complete ${(100 * e.completeness).toFixed(1)} %${ofWhat(data.run)}`] : ["no endpoint"];

	byId("figures").textContent = parts.join("   ·   ");
}

/* The span's time by state, in the colours of the charts. */
function splitBar(span) {
	const bar = element("div", undefined, "split");
	const states = new Map();

	for (const sample of span.samples)
		states.set(stateOf(sample), (states.get(stateOf(sample)) || 0) + sample.wall_ns);
	for (const [state, label] of STATES) {
		const ns = states.get(state);
		const part = element("div");

		if (!ns)
			continue;
		part.style.width = 100 * ns / span.duration_ns + "%";
		part.style.background = STATE_COLOR.get(state);
		part.title = `${label} ${ms(ns)} ms`;
		bar.append(part);
	}
	return bar;
}

function spanRow(span) {
	const row = element("tr", undefined, span === view.span ? "selected" : "");
	const split = element("td");
	const name = element("td");
	const button = element("button", short(span.name));
	const kept = span.snapshots_due ? percent(span.snapshots_kept, span.snapshots_due) : "100.0 %";

	button.type = "button";
	button.addEventListener("click", () => {
		view.span = span;
		draw();
		byId("flame-title").scrollIntoView({ block: "start" });
	});
	split.append(splitBar(span));
	name.append(button);
	row.append(element("td", ms(span.duration_ns)), element("td", ms(span.on_cpu_ns)),
		   element("td", ms(span.run_queue_ns)), element("td", ms(span.blocked_ns)), split, name,
		   element("td", span.tid), element("td", span.end),
		   element("td", kept, span.snapshots_kept < span.snapshots_due ? "warn" : ""));
	return row;
}

function draw() {
	const spans = chosenSpans();
	const profiled = spans.filter((s) => s.samples.length);
	const timed = view.span || profiled[0];
	const chart = timed ? timeRects(timed) : { rects: [], states: [] };

	drawFigures();
	byId("flame-title").textContent = "Where the time went: " +
		(view.span ? `${short(view.span.name)}, span ${view.span.id}` :
		 `${profiled.length} span${profiled.length === 1 ? "" : "s"}`);
	byId("time-title").textContent = timed ?
		`Timeline: ${short(timed.name)}, span ${timed.id}, ${duration(timed.duration_ns)}` +
		(view.span ? "" : " (the slowest)") : "Timeline: no span was profiled";
	flame.set(view.span ? flameRects([view.span]) : profiled.length ? flameRects(profiled) : []);
	timeStates = chart.states;
	time.set(chart.rects);
	byId("spans").tBodies[0].replaceChildren(...spans.slice(0, SPANS_MAX).map(spanRow));
	byId("spans-title").textContent = spans.length > SPANS_MAX ?
		`Spans: the slowest ${SPANS_MAX} of ${spans.length}` : `Spans: ${spans.length}`;
	drawFound();
}

function drawFound() {
	const hits = flame.rects.filter((r) => matches(r.node));
	const top = hits.filter((r) => {
		for (let p = r.parent; p; p = p.parent)
			if (matches(p.node))
				return false;
		return true;
	});
	const sum = top.reduce((ns, r) => ns + r.w, 0);

	byId("found").textContent = view.find === "" ? "" :
		`${hits.length} frames, ${ms(sum)} ms (${percent(sum, flame.whole())})`;
}

function fillNames() {
	const e = data.endpoints[view.endpoint];
	const options = [element("option", "all names")];

	options[0].value = "";
	for (const [i, n] of (e ? e.names : []).entries()) {
		const o = element("option", `${short(n.name)} (${n.profiled})`);

		o.value = i + 1;
		options.push(o);
	}
	byId("name").replaceChildren(...options);
	view.name = null;
	view.span = null;
}

function fillEndpoints() {
	const options = data.endpoints.map((e, i) => {
		const o = element("option", e ? `${short(e.name)} (${e.profiled})` : "");

		o.value = i;
		return o;
	}).slice(1);
	let best = 1;

	data.endpoints.forEach((e, i) => {
		if (e && e.profiled > (data.endpoints[best] || e).profiled)
			best = i;
	});
	byId("endpoint").replaceChildren(...options);
	view.endpoint = options.length ? best : 0;
	byId("endpoint").value = view.endpoint;
	fillNames();
}

function probed(run) {
	const p = run.probed;

	return p ? `; probed for ${duration(p.duration_ns)}, in ${p.turns} turn${p.turns === 1 ? "" : "s"}, ` +
		`to stay below ${p.max_overhead * 100} % of the CPU time (cost ${duration(p.cost_ns)} of ${duration(p.cpu_ns)})` : "";
}

/* Behind "complete": what was not looked at is not in the share. */
function ofWhat(run) {
	const p = run.probed;

	return p && (p.turns > 1 || p.duration_ns <= 0.9 * run.duration_ns) ? " of what was probed" : "";
}

function fillHead() {
	const c = data.completeness;
	const losses = Object.entries(data.losses);
	const complete = byId("complete");

	const names = data.endpoints.slice(1).map((e) => short(e.name)).join(", ");

	document.title = `spanprof: ${names}`;
	byId("title").textContent = names || "spanprof";
	byId("run").textContent = `${duration(data.run.duration_ns)} from ${data.run.start} on ` +
		`${data.run.host}, kernel ${data.run.kernel}${probed(data.run)}`;
	complete.textContent = `complete ${(Math.floor(c.ratio * 1000) / 10).toFixed(1)} %${ofWhat(data.run)}: ` +
		`${c.snapshots_kept} of ${c.snapshots_due} snapshots kept, ` +
		`${c.stacks_incomplete} with incomplete stacks`;
	complete.classList.toggle("warn", c.ratio < 1);
	if (losses.length) {
		const box = byId("losses");

		box.hidden = false;
		box.querySelector("summary").textContent = `${losses.length} kind${losses.length === 1 ? "" : "s"} of losses`;
		box.querySelector("tbody").append(...losses.map(([name, n]) => {
			const row = element("tr");

			row.append(element("td", n), element("td", name));
			return row;
		}));
	}
	byId("legend").append(...STATES.slice(0, 9).map(([, label, color]) => {
		const item = element("span");
		const box = element("i");

		box.style.background = `var(${color})`;
		item.append(box, document.createTextNode(label));
		return item;
	}));
}

byId("endpoint").addEventListener("change", (e) => {
	view.endpoint = Number(e.target.value);
	fillNames();
	draw();
});
byId("name").addEventListener("change", (e) => {
	const names = data.endpoints[view.endpoint].names;

	view.name = e.target.value ? names[e.target.value - 1].name : null;
	view.span = null;
	draw();
});
byId("find").addEventListener("input", (e) => {
	view.find = e.target.value.toLowerCase();
	flame.draw();
	time.draw();
	drawFound();
});
byId("all").addEventListener("click", () => {
	view.span = null;
	draw();
});
byId("reset").addEventListener("click", () => {
	flame.zoomTo(null);
	time.zoomTo(null);
});
byId("theme").addEventListener("click", () => {
	const root = document.documentElement;
	const dark = root.dataset.theme ? root.dataset.theme === "dark" :
		matchMedia("(prefers-color-scheme: dark)").matches;

	root.dataset.theme = dark ? "light" : "dark";
});
window.addEventListener("resize", () => {
	flame.draw();
	time.draw();
});

fillHead();
fillEndpoints();
draw();
