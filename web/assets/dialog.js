// The one dialog of the page.

import { $ } from './dom.js'

let last = 0 // the number of what was shown last

/**
 * Shows something above the page, and returns what closes it: a function that leaves
 * alone what was shown since. The parts are elements and texts. What is about no single
 * session, general, stays when the page comes to show another one.
 */
export function openDialog(title, parts, { wide = false, general = false } = {}) {
	const mine = ++last
	const dialog = $('dialog')
	$('dialog-title').textContent = title
	$('dialog-body').replaceChildren(...parts)
	$('dialog-body').scrollTop = 0
	dialog.classList.toggle('wide', wide)
	dialog.classList.toggle('general', general)
	if (!dialog.open) dialog.showModal()
	return () => {
		if (mine === last) closeDialog()
	}
}

/** Closes the dialog, if it is open. */
export function closeDialog() {
	if ($('dialog').open) $('dialog').close()
}

/** Closes the dialog if it is about the session that the page shows no more. */
export function leaveDialog() {
	if (!$('dialog').classList.contains('general')) closeDialog()
}

$('dialog').addEventListener('click', (e) => {
	if (e.target === e.currentTarget) closeDialog() // beside it
})
