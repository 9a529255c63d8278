// The dialog with all sessions: those that are open, and those that are kept.

import { el, visible } from './dom.js'
import { openDialog } from './dialog.js'

/** Lists all sessions; go shows one that begins, and changed is called after a removal. */
export async function openSessions(api, can, go, changed) {
	const wrong = el('p', { class: 'bar-state fail', role: 'alert', hidden: true })
	/** A button that does something; what fails is said in the dialog. */
	const button = (text, label, act) => {
		const b = el('button', { type: 'button', class: 'btn', 'aria-label': label }, text)
		b.addEventListener('click', async () => {
			b.disabled = true
			wrong.hidden = true
			try {
				await act(b)
			} catch (error) {
				wrong.textContent = error.message
				wrong.hidden = false
			}
			b.disabled = false
		})
		return b
	}
	let close = () => {}
	const show = async (session) => {
		close()
		go(session)
	}
	const { sessions } = await api.get('sessions')
	const rows = sessions.map(({ id, title, updated, open }) => {
		const name = visible(title || 'New session')
		const row = el('li', {}, el('span', { class: 'n', title: name }, name), el('span', { class: 'muted f1' }, when(updated)))
		row.append(
			open
				? button('Show', 'Show ' + name, () => show({ id }))
				: button('Continue', 'Continue ' + name, async () => show(await api.post('sessions', { continue: id }))),
			button('Fork', 'Fork ' + name, async () => show(await forkOf(api, id, open))),
		)
		if (!open && can.remove) row.append(button('Remove', 'Remove ' + name, (b) => remove(api, id, b, row, changed)))
		return row
	})
	const body = [wrong, rows.length ? el('ul', { class: 'list' }, ...rows) : el('p', { class: 'muted' }, 'There are no sessions.')]
	if (can.load) body.push(loading(api, button, show))
	close = openDialog('Sessions', body, { general: true })
}

/** Removes a session, at the second click. */
async function remove(api, id, button, row, changed) {
	if (!button.dataset.sure) {
		button.dataset.sure = 'yes'
		button.textContent = 'Remove permanently'
		button.removeAttribute('aria-label')
		button.classList.add('stop')
		return
	}
	await api.delete('kept/' + encodeURIComponent(id))
	const next = row.nextElementSibling ?? row.previousElementSibling
	row.remove()
	next?.querySelector('button')?.focus()
	changed()
}

/** Forks a session where it is now; one that is closed is opened for that. */
async function forkOf(api, id, open) {
	if (!open) await api.post('sessions', { continue: id })
	const one = api.at(id)
	const { checkpoints } = await one.get('checkpoints')
	if (!checkpoints.length) throw new Error('There is nothing to fork yet: the session has no checkpoints.')
	return one.post('fork', { checkpoint: checkpoints.at(-1).id })
}

function loading(api, button, show) {
	const dir = el('input', { class: 'field', autocomplete: 'off', spellcheck: 'false', placeholder: '~/saved' })
	const load = button('Load', 'Load the snapshot', async () => show(await api.post('sessions', { snapshot: dir.value.trim() })))
	dir.addEventListener('keydown', (e) => {
		if (e.key === 'Enter') load.click()
	})
	return el('div', { class: 'row load' }, el('label', { class: 'fill' }, el('span', {}, 'Start from a snapshot in'), dir), load)
}

function when(time) {
	const date = new Date(time)
	return date > 0 ? date.toLocaleString([], { dateStyle: 'medium', timeStyle: 'short' }) : ''
}
