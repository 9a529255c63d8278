// The page: connects what the server sends with what the person does.

import { $, el, scriptURL } from './dom.js'
import { API, onNewToken, takeToken } from './api.js'
import { Hub } from './hub.js'
import { Log, tick } from './log.js'
import { Composer } from './composer.js'
import { Panel } from './panel.js'
import { Settings } from './settings.js'
import { closeDialog, leaveDialog } from './dialog.js'
import { editMessage, forkAt, openMenu, showSessions } from './session.js'
import { openSessions } from './sessions.js'
import { say, showLink, showState, showWrong } from './status.js'

await takeToken()
const api = new API()
const log = new Log({ root: $('log'), tasks: $('tasks'), scroller: $('chat'), jump: $('jump') })
const composer = new Composer(api, log)
const panel = new Panel(api)
const settings = new Settings(api)

let open = [] // the open sessions
let kept = [] // those that can go on
let coming = '' // the session that was just begun
let looks = 0 // for kept sessions
const asked = new Set() // which sessions are being begun: the ids of kept ones, empty for a new one
let state = {}
let link = { state: 'new' }
let can = {} // what the server offers

// The stream

/** The port of the browser's one hub, or of one for this page alone. */
function connect() {
	if (globalThis.SharedWorker) {
		const url = scriptURL(new URL('worker.js', import.meta.url))
		return new SharedWorker(url, { type: 'module', name: 'pygent' }).port
	}
	const { port1, port2 } = new MessageChannel()
	new Hub().add(port2)
	return port1
}

const port = connect()
port.onmessage = ({ data }) => take(data)
if (navigator.locks) {
	// The hub waits for this lock, and so learns of a page that ends without a word.
	const lock = crypto.randomUUID()
	navigator.locks.request(lock, () => {
		port.postMessage({ do: 'alive', lock })
		return new Promise(() => {})
	})
}

function show(session) {
	if (session !== api.session) {
		composer.change(session)
		leaveDialog()
		api.session = session
		log.clear()
		panel.change()
		state = {}
		showState(state, api)
	}
	port.postMessage({ do: 'show', session, token: api.token })
	showList()
}

/** Takes in what the hub has. */
function take(ops) {
	const own = ops.filter((op) => op.session === api.session)
	log.apply(own)
	for (const op of ops) {
		if (op.op === 'link') link = op
		else if (op.op === 'sessions') listed(op.sessions ?? [])
		else if (op.op === 'hello') can = op.can ?? {}
	}
	for (const op of own) {
		if (op.op === 'state') state = op.state
		else if (op.op === 'say') say(op.text)
		// What begins anew has gone back, or was away: its files may be others.
		else if (op.op === 'files' || op.op === 'reset') panel.touched()
	}
	if (own.some((op) => op.op === 'state')) {
		const first = $('composer').hidden
		showState(state, api)
		panel.update(state)
		composer.update(state)
		settings.update(state)
		for (const what of ['undo', 'fork']) $('log').classList.toggle('can-' + what, !!state.can?.[what])
		if (first && document.activeElement === document.body && !matchMedia('(pointer:coarse)').matches) composer.text.focus()
	} else composer.seeQuestion()
	showEmpty()
	showLink(link)
	$('new').hidden = $('manage').hidden = !can.open
}

/** Takes in the list of the open sessions. */
function listed(list) {
	const before = open.map((s) => s.id)
	open = list
	if (open.some((s) => s.id === api.session)) coming = ''
	else if (!coming || api.session !== coming) go(open[0]?.id ?? '')
	if (open.map((s) => s.id).join() !== before.join()) findKept()
	showList()
}

/** Asks for the sessions that are closed, and can go on. */
async function findKept() {
	if (!can.open) return
	const mine = ++looks
	const all = await api.get('sessions').catch(() => null) // what is known stays
	if (!all || mine !== looks) return
	kept = all.sessions.filter((s) => s.open === false)
	showList()
}

function showList() {
	const closed = kept.filter((s) => !open.some((o) => o.id === s.id))
	showSessions([...open, ...closed], api.session)
}

/**
 * Shows a session that the server has just begun, which the list may not have yet. A
 * fork from a message has that message, to be said otherwise.
 */
function begun({ id, ...message }) {
	coming = id
	document.activeElement?.blur() // the field gets the focus once it is there
	go(id)
	composer.restore(id, message)
}

/** Begins a session, or goes on with a kept one. Asking again while it comes begins no second one. */
async function begin(kept = '') {
	if (asked.has(kept)) return
	asked.add(kept)
	try {
		begun(await api.post('sessions', kept ? { continue: kept } : {}))
	} finally {
		asked.delete(kept)
	}
}

const examples = ['Explain how this project is built', 'Find out why the tests fail and fix them', 'Write a test for the last change']

/** What an empty conversation says: where commands run, and what one may ask for. */
function showEmpty() {
	const shown = $('log').querySelector('.empty')
	const ready = api.session ? state.runtime : link.state === 'up'
	const empty = ready && $('log').childElementCount === (shown ? 1 : 0)
	if (!empty) shown?.remove()
	else if (!shown) $('log').append(el('div', { class: 'empty' }, ...(api.session ? beginning(state.runtime) : [el('p', {}, 'No session is open.')])))
}

function beginning({ label, warn, directory }) {
	const where = warn ? 'Commands run on this machine, not sandboxed' : `Commands run in ${label}`
	return [
		el('p', {}, where, directory && ', in ', directory && el('code', {}, directory), '.'),
		el('p', {}, 'For example:'),
		el('ul', {}, ...examples.map((text) => el('li', {}, text))),
	]
}

// Which session

function wanted() {
	return new URLSearchParams(location.hash.slice(1)).get('session') ?? ''
}

/** Shows a session, and says so in the address. */
function go(session) {
	if (session !== wanted()) history.replaceState(null, '', location.pathname + location.search + (session && '#session=' + encodeURIComponent(session)))
	sheet('side', false)
	show(session)
}

addEventListener('hashchange', async () => {
	await takeToken()
	go(wanted() || api.session)
})
onNewToken(() => show(api.session))

// What the person does

/** Opens or closes one of the sheets of a narrow window. */
function sheet(name, open) {
	const button = $('open-' + name)
	const was = $(name).classList.contains('show')
	$(name).classList.toggle('show', open)
	button.setAttribute('aria-expanded', String(open))
	if (open) $(name).querySelector('button:not([hidden])')?.focus()
	else if (was) button.focus()
}

const themes = ['system', 'light', 'dark']

function setTheme(theme) {
	localStorage.setItem('pygent:theme', theme)
	if (theme === 'system') delete document.documentElement.dataset.theme
	else document.documentElement.dataset.theme = theme
	$('theme').textContent = 'Theme: ' + theme
}

/** Puts a message of a session that was taken back into its field. */
const restore = (session, message) => composer.restore(session, message)

/** The page's own buttons, by their data-do. */
const own = {
	side: () => sheet('side', true),
	'close-side': () => sheet('side', false),
	panel: () => sheet('panel', true),
	'close-panel': () => sheet('panel', false),
	'close-dialog': closeDialog,
	'close-wrong': () => showWrong(''),
	latest: () => {
		log.latest()
		composer.text.focus({ preventScroll: true })
	},
	attach: () => $('attach').click(),
	upload: () => $('upload').click(),
	refresh: () => panel.refresh(),
	stop: () => api.at().post('interrupt'),
	theme: () => setTheme(themes[(themes.indexOf(localStorage.getItem('pygent:theme') ?? 'system') + 1) % themes.length]),
	menu: () => openMenu(api.at(), state.can ?? {}, { begun, restore, settings }),
	sessions: () => openSessions(api, can, begun, findKept),
	new: () => begin(),
}

/** What the server's buttons do, by their data-act. */
const acts = {
	copy: (button) => copy(button),
	allow: (button) => decide(button, 'once'),
	always: (button) => decide(button, 'always'),
	deny: (button) => decide(button, 'deny'),
	answer: (button) => answer(button),
	retry: () => api.at().post('retry'),
	edit: ({ dataset }) => editMessage(api.at(), Number(dataset.said), restore),
	fork: ({ dataset }) => forkAt(api.at(), { said: Number(dataset.said) }, begun),
	view: ({ dataset }) => panel.view(dataset.path),
	'stop-shell': () => api.at().delete('shell'),
	'cancel-task': ({ dataset }) => api.at().post(`tasks/${encodeURIComponent(dataset.task)}/cancel`),
	held: () => api.at().post('messages', { held: true }),
	unqueue: ({ dataset }) => unqueue(api.at(), dataset.id),
}

/** Takes back a message that nobody has heard. */
async function unqueue(one, id) {
	restore(one.session, await one.delete('messages/' + encodeURIComponent(id)))
}

function reply({ dataset }, body) {
	return api.at().post('asks/' + encodeURIComponent(dataset.ask), body)
}

/** Decides about a call; a denial may have a reason. */
function decide(button, decision) {
	const field = button.closest('.ask:not(.q)')?.querySelector('input.field')
	const reason = decision === 'deny' && field ? field.value.trim() : ''
	return reply(button, { decision, reason })
}

/** Answers a question by an option, by the fields of its form, or by its one field. */
function answer(button) {
	if (button.dataset.value !== undefined) return reply(button, { answer: button.dataset.value })
	const fields = [...button.closest('.ask').querySelectorAll('input.field')]
	const named = fields.filter((f) => f.dataset.field)
	if (!named.length) return reply(button, { answer: fields[0]?.value ?? '' })
	return reply(button, { values: Object.fromEntries(named.map((f) => [f.dataset.field, f.value])) })
}

/** Copies the code, the output or the answer that a button belongs to. */
async function copy(button) {
	const from = button.closest('.code')?.querySelector('pre') ?? button.closest('.tool')?.querySelector('pre.out')
	await navigator.clipboard.writeText(from ? from.textContent : textOf(button.closest('.msg').querySelector('.md')))
	button.dataset.words ??= button.textContent // pressed again, it says "Copied" still
	button.textContent = 'Copied'
	setTimeout(() => (button.textContent = button.dataset.words), 1500)
}

/** The text of an answer, without the bars of its code. */
function textOf(answer) {
	const clone = answer.cloneNode(true)
	for (const e of clone.querySelectorAll('.bar')) e.remove()
	return [...clone.childNodes].map((n) => n.textContent.trim()).filter(Boolean).join('\n\n')
}

addEventListener('click', async (e) => {
	const button = e.target.closest?.('button[data-do],button[data-act],a[data-closed]')
	if (!button || button.disabled) return
	const { do: mine, act } = button.dataset
	if (button.matches('a')) e.preventDefault()
	try {
		if (button.matches('a')) await begin(button.dataset.session)
		else if (mine) await own[mine]?.(button)
		else await busy(button, () => acts[act]?.(button))
	} catch (error) {
		// Another page's answer came first: the log shows it.
		if (error.code !== 'answered') showWrong(error.message)
	}
})

/** Keeps the buttons of an answer from being pressed twice. */
async function busy(button, act) {
	const group = button.dataset.ask ? [...(button.closest('.ask')?.querySelectorAll('button') ?? [])] : [button]
	for (const b of group) b.disabled = true
	try {
		await act()
	} catch (error) {
		for (const b of group) b.disabled = false
		throw error
	}
	if (!button.dataset.ask) button.disabled = false
}

/**
 * Whether a key is a letter for the message that is pressed where nothing takes it. While
 * something is asked no key goes where the person does not look.
 */
function isText(e) {
	if (e.key.length !== 1 || e.key === ' ' || e.ctrlKey || e.metaKey || e.altKey || $('dialog').open || $('log').querySelector('.ask:not(.done)')) return false
	return [document.body, $('chat')].includes(document.activeElement)
}

addEventListener('keydown', (e) => {
	if (e.key === 'Enter' && e.target.matches?.('.ask input.field')) {
		e.preventDefault()
		const act = e.target.closest('.ask').matches('.q') ? 'answer' : 'deny'
		if (e.target.value) e.target.closest('.ask').querySelector(`[data-act=${act}]:not([data-value])`)?.click()
	} else if (isText(e)) {
		composer.text.focus()
	} else if (e.key === 'k' && (e.ctrlKey || e.metaKey)) {
		e.preventDefault()
		if (!$('side').offsetWidth) sheet('side', true)
		const first = $('sessions').querySelector('[aria-current]') ?? $('sessions').querySelector('a')
		first?.focus()
	} else if (e.key === 'Escape' && !$('dialog').open) {
		for (const name of ['side', 'panel']) if ($(name).classList.contains('show')) sheet(name, false)
	} else if ((e.key === 'ArrowDown' || e.key === 'ArrowUp') && e.target.closest?.('#sessions')) {
		const all = [...$('sessions').querySelectorAll('a')]
		e.preventDefault()
		all.at((all.indexOf(e.target) + (e.key === 'ArrowDown' ? 1 : -1)) % all.length)?.focus()
	}
})

document.querySelector('[data-skip]').addEventListener('click', (e) => {
	e.preventDefault()
	composer.text.focus()
})

// A click beside a sheet closes it.
addEventListener('pointerdown', (e) => {
	for (const name of ['side', 'panel']) {
		if ($(name).classList.contains('show') && !$(name).contains(e.target) && !e.target.closest('dialog')) sheet(name, false)
	}
})

// Files that are dropped on the field go with the message, others into the workspace.
const files = (e) => [...(e.dataTransfer?.types ?? [])].includes('Files') && !!api.session
addEventListener('dragover', (e) => {
	if (!files(e)) return
	e.preventDefault()
	const attaches = !!e.target.closest?.('#composer')
	$('drop').hidden = attaches || !state.can?.files
})
addEventListener('dragleave', (e) => {
	if (!e.relatedTarget) $('drop').hidden = true
})
addEventListener('drop', (e) => {
	$('drop').hidden = true
	if (!files(e)) return
	e.preventDefault()
	const dropped = [...e.dataTransfer.files]
	if (e.target.closest?.('#composer') || !state.can?.files) composer.attach(dropped)
	else panel.upload(dropped)
})

// Life

setInterval(() => {
	tick()
	showLink(link)
}, 1000)
addEventListener('pagehide', () => port.postMessage({ do: 'bye' }))
addEventListener('pageshow', (e) => {
	if (e.persisted) show(api.session)
})
addEventListener('online', () => port.postMessage({ do: 'retry' }))
document.addEventListener('visibilitychange', () => {
	if (!document.hidden) port.postMessage({ do: 'retry' })
})

setTheme(localStorage.getItem('pygent:theme') ?? 'system')
show(wanted())
