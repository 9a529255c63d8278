// Many calls in a row are one line, which opens. What failed, waits or runs stays in
// sight, and so does what the person did.

import { el } from './dom.js'

const most = 5 // finished calls in a row that are shown one by one

/** Folds the finished calls that follow each other in the log. */
export function foldCalls(root) {
	let row = []
	for (const e of [...root.children, null]) {
		if (e && (isDone(e) || isBeside(e))) {
			row.push(e)
			continue
		}
		foldRow(row)
		row = []
	}
}

function foldRow(row) {
	const first = row.findIndex(isDone)
	row = row.slice(first, row.findLastIndex(isDone) + 1)
	if (first < 0 || row.flatMap(calls).length <= most) return
	const box = row[0].matches('.fold') ? row[0] : el('details', { class: 'fold' }, el('summary'))
	if (!box.isConnected) row[0].before(box)
	for (const e of row) {
		if (e === box) continue
		if (!e.matches('.fold')) {
			box.append(e)
			continue
		}
		e.firstElementChild.remove()
		box.append(...e.children)
		e.remove()
	}
	label(box)
}

/** A call that went well, or a line of such. One that has the focus would lose it. */
function isDone(e) {
	if (e.matches('.fold')) return true
	return e.matches('.tool[data-key^=c]') && !!e.querySelector(':scope>summary>.dot.ok') && !e.contains(document.activeElement)
}

/** What stands between calls and belongs to them: thoughts, and answered approvals. */
function isBeside(e) {
	return e.matches('.think,.ask.done[aria-label=Approval]') && !e.contains(document.activeElement)
}

/** The calls that an element is, or has. */
function calls(e) {
	return e.matches('.fold') ? [...e.querySelectorAll(':scope>.tool')] : e.matches('.tool') ? [e] : []
}

function label(box) {
	const verbs = new Map()
	for (const call of calls(box)) {
		const verb = call.querySelector('.verb').textContent.toLowerCase()
		verbs.set(verb, (verbs.get(verb) ?? 0) + 1)
	}
	const parts = [...verbs].map(([verb, n]) => `${verb} ${n}`).join(', ')
	const sign = el('span', { class: 'dot ok', role: 'img', 'aria-label': 'done' }, '✓')
	box.firstElementChild.replaceChildren(sign, el('span', { class: 'verb' }, `${calls(box).length} calls`), el('span', { class: 'what' }, parts))
}
