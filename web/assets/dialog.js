// The one dialog of the page.

import { $ } from './dom.js'

/** Shows something above the page. The parts are elements and texts. */
export function openDialog(title, parts, { wide = false } = {}) {
	const dialog = $('dialog')
	$('dialog-title').textContent = title
	$('dialog-body').replaceChildren(...parts)
	$('dialog-body').scrollTop = 0
	dialog.classList.toggle('wide', wide)
	if (!dialog.open) dialog.showModal()
}

/** Closes the dialog, if it is open. */
export function closeDialog() {
	if ($('dialog').open) $('dialog').close()
}

$('dialog').addEventListener('click', (e) => {
	if (e.target === e.currentTarget) closeDialog() // beside it
})
