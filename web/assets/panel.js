// The panel at the right: the workspace's files, the tasks, the changes.

import { $, bytes, el, fragment, visible } from './dom.js'
import { base } from './api.js'
import { openDialog } from './dialog.js'
import { showWrong } from './status.js'

const signs = { M: ['mod', 'modified'], A: ['new', 'new'], D: ['del', 'deleted'] }
const calm = 400 // ms between a change of files and the next look at them

/** Panel shows one session's files, tasks and changes. */
export class Panel {
	#api
	#opened = new Set() // the paths of the open folders
	#tab = 'files'
	#timer = 0
	#stale = true
	#can = {}
	#loading = 0
	#changed = new Map() // path → M, A or D: what this session did

	constructor(api) {
		this.#api = api
		const tabs = [...document.querySelectorAll('[data-tab]')]
		for (const tab of tabs) {
			tab.addEventListener('click', () => this.select(tab.dataset.tab))
			tab.addEventListener('keydown', (e) => {
				const step = { ArrowRight: 1, ArrowLeft: -1 }[e.key]
				if (!step) return
				const shown = tabs.filter((t) => !t.hidden)
				const next = shown.at((shown.indexOf(tab) + step) % shown.length)
				this.select(next.dataset.tab)
				next.focus()
			})
		}
		$('upload').addEventListener('change', (e) => {
			this.upload([...e.target.files])
			e.target.value = ''
		})
		new MutationObserver(() => this.#countTasks()).observe($('tasks'), { childList: true, subtree: true })
		// The panel that was away looks again when it is shown.
		new IntersectionObserver(() => this.#look()).observe($('panel'))
	}

	/** Shows only what the session offers. */
	update({ can = {} }) {
		this.#can = can ?? {}
		for (const name of ['files', 'tasks', 'changes']) $('tab-' + name).hidden = !this.#can[name]
		const first = ['files', 'tasks', 'changes'].find((name) => this.#can[name])
		if (!this.#can[this.#tab] && first) this.select(first)
		$('panel').hidden = !first
		$('app').classList.toggle('no-panel', !first)
		$('open-panel').hidden = !first
		this.#look()
	}

	/** Forgets what was shown of another session. */
	change() {
		this.#opened.clear()
		this.#can = {}
		this.#loading++
		$('panel').hidden = true
		$('tree').replaceChildren()
		$('changes').replaceChildren()
		this.#stale = true
	}

	/** Files may have changed. */
	touched() {
		this.#stale = true
		clearTimeout(this.#timer)
		this.#timer = setTimeout(() => this.#look(), calm)
	}

	select(name) {
		this.#tab = name
		for (const tab of document.querySelectorAll('[data-tab]')) {
			const on = tab.dataset.tab === name
			tab.setAttribute('aria-selected', String(on))
			tab.tabIndex = on ? 0 : -1
			$('panel-' + tab.dataset.tab).hidden = !on
		}
		this.#stale = true
		this.#look()
	}

	#look() {
		if (!this.#stale || !this.#can[this.#tab] || !this.#api.session || !$('panel').offsetWidth) return
		this.#stale = false
		this.refresh()
	}

	/** Reads again what the panel shows. */
	async refresh() {
		const mine = ++this.#loading
		const one = this.#api.at()
		try {
			if (this.#tab === 'files') await this.#showFiles(one, mine)
			if (this.#tab === 'changes') await this.#showChanges(one, mine)
		} catch (error) {
			if (mine === this.#loading) showWrong(error.message)
		}
	}

	async #showFiles(one, mine) {
		// That what has changed is not known is said where changes are shown.
		const { changes = [] } = this.#can.changes ? await one.get('changes').catch(() => ({})) : {}
		if (mine !== this.#loading) return
		this.#changed = new Map(changes.map(({ path, status }) => [path, status]))
		const rows = await this.#folder(one, '')
		if (mine !== this.#loading) return
		const focused = document.activeElement?.closest('#tree [data-path]')?.dataset.path
		$('tree').replaceChildren(...rows)
		$('no-files').hidden = rows.length > 0
		if (focused !== undefined) $('tree').querySelector(`[data-path="${CSS.escape(focused)}"]`)?.focus()
	}

	/** The rows of a folder, with those of the open folders in it. */
	async #folder(one, path) {
		const { files = [], more } = await one.get('files', { path })
		const rows = await Promise.all(files.map((file) => (file.dir ? this.#dir(one, file) : this.#file(file))))
		if (more) rows.push(el('li', { class: 'muted f2' }, 'and more'))
		return rows
	}

	async #dir(one, { name, path }) {
		const list = el('ul')
		const summary = el('summary', { 'data-path': path }, el('span', { class: 'n', title: visible(path) }, visible(name)))
		const details = el('details', {}, summary, list)
		const fill = async () => list.replaceChildren(...(await this.#folder(one, path)))
		if (this.#opened.has(path)) {
			await fill().catch(() => this.#opened.delete(path))
			details.open = this.#opened.has(path)
		}
		summary.addEventListener('click', async () => {
			if (details.open) {
				this.#opened.delete(path)
				return
			}
			this.#opened.add(path)
			await fill().catch((error) => showWrong(error.message))
		})
		return el('li', {}, details)
	}

	#file({ name, path, size }) {
		const row = el(
			'button',
			{ type: 'button', class: 'file', 'data-act': 'view', 'data-path': path, title: visible(path) },
			el('span', { class: 'n' }, visible(name)),
			el('span', { class: 'size' }, bytes(size)),
			tag(this.#changed.get(path)),
		)
		return el('li', {}, row)
	}

	async #showChanges(one, mine) {
		const { changes = [], more } = await one.get('changes')
		if (mine !== this.#loading) return
		const shown = changes.map(change)
		if (more) shown.push(el('p', { class: 'muted f2' }, 'and more'))
		if (!shown.length) shown.push(el('p', { class: 'muted f2' }, 'Nothing has changed in this session.'))
		$('changes').replaceChildren(...shown)
	}

	#countTasks() {
		const running = $('tasks').querySelectorAll('.task .head > .spin, .task .head > .dot.wait').length
		$('tab-tasks').replaceChildren('Tasks', ...(running ? [el('span', { class: 'chip' }, String(running))] : []))
	}

	/** Shows a file in a dialog, from which it can be downloaded. */
	async view(path) {
		const one = this.#api.at()
		const file = await one.get('file', { path })
		if (!one.isShown) return
		const download = el('button', { type: 'button', class: 'btn' }, 'Download')
		download.addEventListener('click', () => this.#download(one, path).catch((error) => showWrong(error.message)))
		const facts = [bytes(file.size), file.truncated && 'only the first part is shown'].filter(Boolean).join(' · ')
		const body = el('div', {})
		if (file.html) body.append(fragment(file.html))
		else body.append(el('p', { class: 'muted' }, 'This file is not text.'))
		const head = el('div', { class: 'row file-head' }, el('span', { class: 'muted f1' }, facts), el('span', { class: 'gap' }), download)
		openDialog(visible(path), [head, body], { wide: true })
	}

	/** Downloads a file by an address that works once. */
	async #download(one, path) {
		const { url } = await one.post('downloads', { path })
		const address = new URL(url, base)
		if (address.origin !== base.origin) throw new Error('The download is not on this server.')
		el('a', { href: address.href, download: '' }).click()
	}

	/** Puts files into the workspace of the session that is shown now. */
	async upload(files) {
		const one = this.#api.at()
		for (const file of files) {
			await one.upload('file', { path: file.name }, file).catch((error) => showWrong(`${file.name}: ${error.message}`))
		}
		if (one.isShown) this.touched()
	}
}

/** The sign of a changed file. */
function tag(change) {
	const [kind, title] = signs[change] ?? []
	return kind && el('span', { class: 'tag ' + kind, title }, change)
}

function change({ path, status, added, removed, html }) {
	const summary = el(
		'summary',
		{},
		el('span', { class: 'n', title: visible(path) }, visible(path)),
		added > 0 && el('span', { class: 'plus f1' }, `+${added}`),
		removed > 0 && el('span', { class: 'minus f1' }, `−${removed}`),
		tag(status),
	)
	const large = el('button', { type: 'button', class: 'btn quiet large', 'aria-label': 'Enlarge the change of ' + visible(path) }, 'Enlarge')
	large.addEventListener('click', () => openDialog(visible(path), [fragment(html)], { wide: true }))
	const whole = fragment(html ?? '')
	return el('details', { class: 'change', open: true }, summary, whole, whole.querySelector('.diff') && large)
}
