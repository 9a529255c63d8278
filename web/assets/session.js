// What one does with a session: the list, new ones, the menu, going back.

import { $, el, visible } from './dom.js'
import { closeDialog, openDialog } from './dialog.js'
import { showWrong } from './status.js'

/** Shows the list of sessions; current is the one that the page shows. */
export function showSessions(sessions, current) {
	const rows = sessions.map(({ id, title, activity, needs, open }) => {
		const sign = needs
			? el('span', { class: 'dot wait', role: 'img', 'aria-label': 'waits for you' }, '?')
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

/** The menu of a session: what can be done with it. edit takes a message that was taken back. */
export function openMenu(api, can, go, edit, settings) {
	const entry = (text, act) => {
		const button = el('button', { type: 'button', class: 'btn quiet' }, text)
		button.addEventListener('click', () => act().catch((error) => fail(error)))
		return button
	}
	const then = (act) => async () => {
		await act()
		closeDialog()
	}
	const entries = [
		can.settings && entry('Settings', () => settings.open()),
		can.undo && entry('Undo the last turn', then(async () => edit(await api.post(api.in('undo'), { turns: 1 })))),
		can.redo && entry('Redo', then(() => api.post(api.in('redo')))),
		(can.undo || can.fork) && entry('Go back to a checkpoint', () => openCheckpoints(api, can, go, edit)),
		can.save && entry('Save a snapshot', async () => openSave(api)),
		can.close && entry('Close this session', then(() => api.delete('sessions/' + encodeURIComponent(api.session)))),
	].filter(Boolean)
	openDialog('This session', [el('div', { class: 'menu' }, ...entries)])
}

function fail(error) {
	closeDialog()
	showWrong(error.message)
}

/** Checkpoints that one can go back to, or go on from in another session. */
async function openCheckpoints(api, can, go, edit) {
	const { checkpoints = [] } = await api.get(api.in('checkpoints'))
	const starts = checkpoints.filter((c) => c.kind === 'start').reverse()
	const rows = starts.map(({ id, message, time }) => {
		const title = `Before “${message || 'the beginning'}”`
		const button = (text, act) => {
			const b = el('button', { type: 'button', class: 'btn' }, text)
			b.addEventListener('click', () => act().then(closeDialog).catch(fail))
			return b
		}
		return el(
			'li',
			{},
			el('span', { class: 'n', title }, title),
			el('span', { class: 'muted f1' }, time ? new Date(time).toLocaleTimeString([], { timeStyle: 'short' }) : ''),
			can.undo && button('Restore', async () => edit(await api.post(api.in('restore'), { checkpoint: id }))),
			can.fork && button('Fork', () => forkAt(api, { checkpoint: id }, go)),
		)
	})
	const none = el('p', { class: 'muted' }, 'There is nothing to go back to yet.')
	openDialog('Go back', rows.length ? [el('ul', { class: 'list' }, ...rows)] : [none])
}

/** Asks where a snapshot of the session is to be, and makes it. */
function openSave(api) {
	const dir = el('input', { class: 'field', autocomplete: 'off', spellcheck: 'false', placeholder: '~/saved' })
	const replace = el('input', { type: 'checkbox' })
	const save = el('button', { type: 'button', class: 'btn main' }, 'Save')
	const told = el('p', { role: 'status' })
	save.addEventListener('click', async () => {
		save.disabled = true
		told.className = 'muted'
		told.textContent = 'Saving…'
		try {
			const { dir: at, files, left_out: left } = await api.post(api.in('save'), { dir: dir.value.trim(), replace: replace.checked })
			told.textContent = `Saved in ${visible(at)}: the conversation, the settings and ${files === 1 ? '1 file' : files + ' files'}.`
			if (left.length) told.append(` Not saved: ${left.map(visible).join(', ')}.`)
		} catch (error) {
			told.className = 'bar-state fail'
			told.textContent = error.message
		}
		save.disabled = false
	})
	openDialog('Save a snapshot', [
		el('p', { class: 'muted' }, 'Files, conversation and settings go into a new directory of the machine of the server. Keys are not saved; what the workspace has in files is.'),
		el('label', { class: 'fill' }, el('span', {}, 'Directory'), dir),
		el('label', { class: 'check' }, replace, el('span', {}, 'Replace a snapshot that is there')),
		el('div', { class: 'row' }, save),
		told,
	])
	dir.focus()
}

/** Goes on from a checkpoint, or from before a message, in a session of its own, which go shows. */
export async function forkAt(api, moment, go) {
	go(await api.post(api.in('fork'), moment))
}

/** Takes back a message of the user and what followed, once the person has agreed; edit gets that message. */
export function editMessage(api, said, edit) {
	const back = el('button', { type: 'button', class: 'btn main' }, 'Go back and edit')
	const stay = el('button', { type: 'button', class: 'btn', 'data-do': 'close-dialog' }, 'Cancel')
	back.addEventListener('click', async () => {
		back.disabled = true
		try {
			const message = await api.post(api.in('restore'), { said })
			closeDialog()
			await edit(message)
		} catch (error) {
			fail(error)
		}
	})
	openDialog('Edit this message?', [
		el('p', {}, 'The conversation goes back to before this message, and so do the files that the agent has changed since. Files that you have changed yourself stay. Redo in the menu brings all of it back; a fork leaves this session as it is.'),
		el('div', { class: 'row' }, back, stay),
	])
}
