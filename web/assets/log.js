// The conversation: puts what the server sends into the document, keeps what the
// reader opened, and follows the end while the reader is there.

import { elapsed, fragment } from './dom.js'
import { foldCalls } from './fold.js'

const near = 60 // px: who is that close to the end is at the end
const keptOutput = 64 << 10 // characters of live output in the document

/** Log shows one session at a time. */
export class Log {
	#keyed = new Map() // key → element
	#chosen = new Map() // key → whether the reader opened or closed it
	#following = true
	#last = 0 // where the scroller was

	constructor({ root, tasks, scroller, jump }) {
		Object.assign(this, { root, tasks, scroller, jump })
		scroller.addEventListener('scroll', () => this.#scrolled(), { passive: true })
		const growth = new ResizeObserver(() => this.#keepUp())
		for (const e of [scroller, ...scroller.children]) growth.observe(e)
		for (const place of [root, tasks]) {
			place.addEventListener('click', (e) => this.#chose(e))
		}
	}

	/** Carries out operations together, so that the reader sees one change. */
	apply(ops) {
		this.#scrolled()
		for (const op of ops) {
			if (op.op === 'reset') this.clear()
			else if (op.op === 'put') this.#put(op)
			else if (op.op === 'del') this.#delete(op.key)
			else if (op.op === 'out') this.#out(op)
		}
		if (ops.some((op) => op.op === 'put' && !op.parent)) foldCalls(this.root)
		this.#keepUp()
	}

	/** Empties the log for another session, or for another life of the server. */
	clear() {
		this.#keyed.clear()
		this.#chosen.clear()
		this.root.replaceChildren()
		this.tasks.replaceChildren()
		this.#last = 0 // it was not the reader who went up
		this.#follow(true)
	}

	/** Goes to the end, and stays there. */
	latest() {
		this.#follow(true)
		this.#keepUp()
	}

	/** The open question that is asked last, if there is one. */
	question() {
		return [...this.root.children].filter((e) => e.matches('.ask.q:not(.done)')).at(-1)
	}

	#put({ key, parent, html }) {
		const next = fragment(html).firstElementChild
		if (!next) return
		next.dataset.key = key
		const old = this.#keyed.get(key)
		if (old) this.#forget(old)
		this.#keyed.set(key, next)
		if (this.#chosen.has(key) && next.matches('details')) next.open = this.#chosen.get(key)
		if (old?.isConnected) replace(old, next)
		else this.#place(parent).append(next)
		const out = next.querySelector('[data-out]')
		if (out) out.scrollTop = out.scrollHeight
		tick(next)
	}

	/** The element that gets new elements of a parent. */
	#place(parent) {
		if (!parent) return this.root
		if (parent === 'tasks') return this.tasks
		const e = this.#keyed.get(parent)
		return e?.querySelector('[data-slot]') ?? e ?? this.root
	}

	#delete(key) {
		const e = this.#keyed.get(key)
		if (!e) return
		this.#forget(e)
		e.remove()
	}

	/** Forgets the keys of an element and of what is in it. */
	#forget(e) {
		for (const child of e.querySelectorAll('[data-key]')) this.#keyed.delete(child.dataset.key)
		this.#keyed.delete(e.dataset.key)
	}

	#out({ key, text }) {
		const out = this.#keyed.get(key)?.querySelector('[data-out]')
		if (!out) return
		const atEnd = out.scrollHeight - out.scrollTop - out.clientHeight < 24
		out.append(text)
		for (let size = out.textContent.length; size > keptOutput && out.childNodes.length > 1; ) {
			size -= out.firstChild.textContent.length
			out.firstChild.remove()
		}
		if (atEnd) out.scrollTop = out.scrollHeight
	}

	/** Remembers what the reader opens or closes by hand. */
	#chose(e) {
		const details = e.target.closest('summary')?.parentElement
		if (details?.dataset.key) this.#chosen.set(details.dataset.key, !details.open)
	}

	/**
	 * Only the reader goes up; what grows below is followed. It is looked at before
	 * anything is added, too: the event may come too late.
	 */
	#scrolled() {
		const { scrollTop } = this.scroller
		if (this.#atEnd()) this.#follow(true)
		else if (scrollTop < this.#last) this.#follow(false)
		this.#last = scrollTop
	}

	#atEnd() {
		const { scrollHeight, scrollTop, clientHeight } = this.scroller
		return scrollHeight - scrollTop - clientHeight < near
	}

	#follow(following) {
		this.#following = following
		this.jump.hidden = following
	}

	#keepUp() {
		this.#scrolled()
		if (!this.#following) return
		this.scroller.scrollTop = this.scroller.scrollHeight
		this.#last = this.scroller.scrollTop
	}
}

/**
 * Puts an element in the place of an older one of the same key, with the text in the
 * fields, the focus and the positions of that. What had been put into the old one
 * goes; the server puts it again.
 */
function replace(old, next) {
	const fields = [...next.querySelectorAll('input.field,textarea')]
	for (const [i, field] of old.querySelectorAll('input.field,textarea').entries()) {
		if (fields[i]) fields[i].value = field.value
	}
	const focused = old.contains(document.activeElement) && document.activeElement
	const path = focused ? pathOf(focused, old) : null
	const scrolled = [...old.querySelectorAll('pre,.diff')].map((e) => e.scrollTop)
	old.replaceWith(next)
	for (const [i, e] of next.querySelectorAll('pre,.diff').entries()) e.scrollTop = scrolled[i] ?? 0
	if (!focused) return
	let e = next
	for (const i of path) e = e?.children[i]
	if (e?.tagName !== focused.tagName || e?.disabled) e = next.matches('details') ? next.firstElementChild : null
	e?.focus({ preventScroll: true })
}

/** The indexes of an element and its ancestors below root. */
function pathOf(e, root) {
	const path = []
	for (; e !== root; e = e.parentElement) path.unshift([...e.parentElement.children].indexOf(e))
	return path
}

/** Brings the clocks below an element up to date: `<span data-since="…">`. */
export function tick(root = document) {
	for (const e of root.querySelectorAll('[data-since]')) {
		const since = Date.parse(e.dataset.since)
		const text = since ? elapsed(since) : ''
		if (e.textContent !== text) e.textContent = text
	}
}
