// What one does with a session: the list, new ones, the menu, going back.

import { $, el, visible } from './dom.js'
import { openDialog } from './dialog.js'
import { showWrong } from './status.js'

/** Shows the list of sessions; current is the one that the page shows. */
export function showSessions(sessions, current) {
	const rows = sessions.map(({ id, title, activity, needs, open }) => {
		const sign = needs
			? el('span', { class: 'dot wait', role: 'img', 'aria-label': 'waiting for you' }, '?')
			: activity && activity !== 'idle' && open !== false
				? el('i', { class: 'spin', role: 'img', 'aria-label': 'works' })
				: null
		const link = el(
			'a',
			{ href: '#session=' + encodeURIComponent(id), class: open === false && 'closed', 'aria-current': id === current && 'page', title: title || null, 'data-session': id, 'data-closed': open === false },
			el('span', { class: 'n' }, title || 'New session'),
			sign,
		)
		return el('li', {}, link)
	})
	const focused = document.activeElement?.closest('#sessions a')?.dataset.session
	$('sessions').replaceChildren(...rows)
	if (focused) $('sessions').querySelector(`[data-session="${CSS.escape(focused)}"]`)?.focus()
}

/**
 * The menu of a session: what can be done with it. restore takes a message of a session
 * that was taken back, and begun shows a session that began.
 */
export function openMenu(one, can, { begun, restore, settings }) {
	let close = () => {}
	const entry = (text, act) => {
		const button = el('button', { type: 'button', class: 'btn quiet' }, text)
		button.addEventListener('click', () => act().catch((error) => fail(close, error)))
		return button
	}
	const entries = [
		can.settings && entry('Settings', () => settings.open()),
		can.undo && entry('Undo the last turn', () => goBack(one, 'undo', { turns: 1 }, close, restore)),
		can.redo && entry('Redo', () => one.post('redo').then(close)),
		(can.undo || can.fork) && entry('Go back to a checkpoint', () => openCheckpoints(one, can, begun, restore)),
		can.save && entry('Save a snapshot', async () => openSave(one)),
		can.close && entry('Close this session', () => one.delete().then(close)),
	].filter(Boolean)
	close = openDialog('This session', [el('div', { class: 'menu' }, ...entries)])
}

/** Tells of an error where the dialog does not cover it. */
function fail(close, error) {
	close()
	showWrong(error.message)
}

/** Takes back what was said; the dialog is closed before the message comes into the field, which gets the focus. */
async function goBack(one, how, to, close, restore) {
	const message = await one.post(how, to)
	close()
	restore(one.session, message)
}

/** Checkpoints that one can go back to, or go on from in another session. */
async function openCheckpoints(one, can, begun, restore) {
	const { checkpoints = [] } = await one.get('checkpoints')
	if (!one.isShown) return
	let close = () => {}
	const starts = checkpoints.filter((c) => c.kind === 'start').reverse()
	const rows = starts.map(({ id, message, time }) => {
		const title = `Before “${message || 'the beginning'}”`
		const button = (text, act) => {
			const b = el('button', { type: 'button', class: 'btn' }, text)
			b.addEventListener('click', () => act().catch((error) => fail(close, error)))
			return b
		}
		return el(
			'li',
			{},
			el('span', { class: 'n', title }, title),
			el('span', { class: 'muted f1' }, time ? new Date(time).toLocaleTimeString([], { timeStyle: 'short' }) : ''),
			can.undo && button('Restore', () => goBack(one, 'restore', { checkpoint: id }, close, restore)),
			can.fork && button('Fork', () => forkAt(one, { checkpoint: id }, begun).then(close)),
		)
	})
	const none = el('p', { class: 'muted' }, 'There are no checkpoints yet.')
	close = openDialog('Go back', rows.length ? [el('ul', { class: 'list' }, ...rows)] : [none])
}

/** Asks where a snapshot of the session is to be, and makes it. */
function openSave(one) {
	const dir = el('input', { class: 'field', autocomplete: 'off', spellcheck: 'false', placeholder: '~/saved' })
	const replace = el('input', { type: 'checkbox' })
	const save = el('button', { type: 'button', class: 'btn main' }, 'Save')
	const told = el('p', { role: 'status' })
	save.addEventListener('click', async () => {
		save.disabled = true
		told.className = 'muted'
		told.textContent = 'Saving…'
		try {
			const { dir: at, files, left_out: left } = await one.post('save', { dir: dir.value.trim(), replace: replace.checked })
			told.textContent = `Saved in ${visible(at)}: the conversation, the settings and ${files === 1 ? '1 file' : files + ' files'}.`
			if (left.length) told.append(` Not saved: ${left.map(visible).join(', ')}.`)
		} catch (error) {
			told.className = 'bar-state fail'
			told.textContent = error.message
		}
		save.disabled = false
	})
	openDialog('Save a snapshot', [
		el('p', { class: 'muted' }, 'Saves files, conversation and settings to a new directory on the server. Keys are not saved, but all files of the workspace are, including .env files.'),
		el('label', { class: 'fill' }, el('span', {}, 'Directory'), dir),
		el('label', { class: 'check' }, replace, el('span', {}, 'Replace an existing snapshot')),
		el('div', { class: 'row' }, save),
		told,
	])
	dir.focus()
}

/** Goes on from a checkpoint, or from before a message, in a session of its own, which begun shows. */
export async function forkAt(one, moment, begun) {
	begun(await one.post('fork', moment))
}

/** Takes back a message of the user and what followed, once the person has agreed; restore gets that message. */
export function editMessage(one, said, restore) {
	const back = el('button', { type: 'button', class: 'btn main' }, 'Go back and edit')
	const stay = el('button', { type: 'button', class: 'btn', 'data-do': 'close-dialog' }, 'Cancel')
	back.addEventListener('click', () => {
		back.disabled = true
		goBack(one, 'restore', { said }, close, restore).catch((error) => fail(close, error))
	})
	const close = openDialog('Edit this message?', [
		el('p', {}, 'The conversation and the files that the agent changed go back to before this message. Files that you changed yourself are left alone. “Redo” in the menu brings everything back. To leave this session unchanged, use “Fork” instead.'),
		el('div', { class: 'row' }, back, stay),
	])
}
