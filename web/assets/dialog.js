// The one dialog of the page.

import { $ } from './dom.js'

/**
 * Shows something above the page. The parts are elements and texts. What is about no
 * single session, general, stays when the page comes to show another one.
 */
export function openDialog(title, parts, { wide = false, general = false } = {}) {
	const dialog = $('dialog')
	$('dialog-title').textContent = title
	$('dialog-body').replaceChildren(...parts)
	$('dialog-body').scrollTop = 0
	dialog.classList.toggle('wide', wide)
	dialog.classList.toggle('general', general)
	if (!dialog.open) dialog.showModal()
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
