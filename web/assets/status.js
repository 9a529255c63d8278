// What the session is doing, in words: the header, the status line, the queue, the
// title of the page.

import { $, count, el, elapsed } from './dom.js'

/** Shows a state of the session. */
export function showState(s, { session }) {
	const title = s.title || 'New session'
	$('title').textContent = title
	$('title').title = title
	document.title = (s.needs ? '● ' : '') + title + ' · Pygent'
	showRuntime(s.runtime)
	showMeter(s)
	showLine(s)
	showQueue(s)
	$('stop').hidden = !s.busy && !s.errand && !s.shell
	$('menu').hidden = !session || !s.can // what it offers
	$('open-panel').hidden = !session
	$('composer').hidden = !session || !s.can
}

function showRuntime(runtime) {
	const chip = $('runtime')
	chip.hidden = !runtime?.label
	chip.classList.toggle('warn', !!runtime?.warn)
	chip.replaceChildren(el('span', {}, runtime?.label ?? ''))
	chip.title = runtime?.directory ?? ''
}

function showMeter({ context, tokens, cost }) {
	const spent = []
	if (context?.used) spent.push(count(context.used))
	else if (tokens) spent.push(count(tokens))
	if (cost) spent.push('$' + cost.toFixed(2))
	const part = context?.window ? context.used / context.window : 0
	const meter = $('meter')
	meter.hidden = !spent.length
	meter.classList.toggle('full', part >= 0.9)
	const bar = meter.querySelector('progress')
	bar.hidden = !context?.window
	bar.value = Math.min(100, part * 100)
	$('percent').textContent = context?.window ? `${Math.round(part * 100)} %` : ''
	$('spent').textContent = (context?.window && spent.length ? '· ' : '') + spent.join(' · ')
	meter.title = tokens ? `${tokens.toLocaleString()} tokens in this session` : ''
}

function showLine({ words: doing, since, shell, needs }) {
	const words = doing || (shell ? 'Running your command' : '')
	const line = $('status')
	line.hidden = !words
	if (!words) return
	const sign = needs
		? el('span', { class: 'dot wait', 'aria-hidden': 'true' }, '?')
		: el('span', { class: 'spin', 'aria-hidden': 'true' })
	const clock = since && el('span', { 'data-since': since }, elapsed(Date.parse(since)))
	line.replaceChildren(...[sign, el('span', {}, words), clock && '·', clock].filter(Boolean))
}

function showQueue({ queue = [], held }) {
	const rows = (queue ?? []).map(({ id, text }) =>
		el(
			'div',
			{ class: 'queued' },
			held ? 'Held:' : 'Next:',
			el('span', { title: text }, text),
			el('button', { type: 'button', class: 'btn quiet icon', 'data-act': 'unqueue', 'data-id': id, 'aria-label': 'Edit: ' + text }, '✕'),
		),
	)
	if (held && rows.length) {
		const send = el('button', { type: 'button', class: 'btn', 'data-act': 'held' }, rows.length > 1 ? 'Send them now' : 'Send it now')
		rows.push(el('div', { class: 'row held' }, el('span', { class: 'muted f1' }, 'Held, because the turn failed or is waiting for you.'), el('span', { class: 'gap' }), send))
	}
	$('queue').replaceChildren(...rows)
}

/** Shows the state of the connection. */
export function showLink(link) {
	const line = $('lost')
	const words = {
		refused: () => 'The server does not accept this page. Open the address that pygent printed, with its token.',
		'signed out': () => 'You are not signed in. Reload the page to sign in.',
		down: () => {
			const s = Math.max(0, Math.ceil((link.until - Date.now()) / 1000))
			return `Connection lost. The session continues; reconnecting${s > 0 ? ` in ${s} s` : ''}.`
		},
	}
	const text = words[link.state]?.() ?? ''
	line.hidden = !text
	if (line.textContent !== text) line.textContent = text
}

/** Tells the person what went wrong, until something works or it is read. */
export function showWrong(message, retry) {
	const line = $('wrong')
	line.hidden = !message
	if (!message) return
	line.replaceChildren(el('span', {}, message), el('span', { class: 'gap' }))
	if (retry) {
		const button = el('button', { type: 'button', class: 'btn' }, 'Try again')
		button.addEventListener('click', retry)
		line.append(button)
	}
	line.append(el('button', { type: 'button', class: 'btn quiet icon', 'data-do': 'close-wrong', 'aria-label': 'Close this message' }, '✕'))
}

/** Has screen readers say something when they have nothing else to say. */
export function say(text) {
	const region = $('said')
	region.append(el('p', {}, text))
	while (region.children.length > 3) region.firstChild.remove()
}
