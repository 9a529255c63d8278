// What one does with a session: the list, new ones, the menu, going back.

import { $, el } from './dom.js'
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

/** The menu of a session: what can be done with it. edit takes a text that was taken back. */
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
		can.undo && entry('Undo the last turn', then(async () => edit((await api.post(api.in('undo'), { turns: 1 })).text))),
		can.redo && entry('Redo', then(() => api.post(api.in('redo')))),
		(can.undo || can.fork) && entry('Go back to a checkpoint', () => openCheckpoints(api, can, go, edit)),
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
			can.undo && button('Restore', async () => edit((await api.post(api.in('restore'), { checkpoint: id })).text)),
			can.fork && button('Fork', () => fork(api, id, go)),
		)
	})
	const none = el('p', { class: 'muted' }, 'There is nothing to go back to yet.')
	openDialog('Go back', rows.length ? [el('ul', { class: 'list' }, ...rows)] : [none])
}

/** Goes on from a checkpoint in a session of its own, which go shows. */
export async function fork(api, checkpoint, go) {
	go(await api.post(api.in('fork'), { checkpoint: Number(checkpoint) }))
}
