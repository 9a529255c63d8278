// The dialog with the settings of a session. A change counts at once; what another page
// or a command changes is shown when the state of the session says so.

import { $, el, visible } from './dom.js'
import { openDialog } from './dialog.js'

/** Settings shows and changes the settings of the session that the page shows. */
export class Settings {
	#api
	#one = null // the session whose settings are shown
	#set = 0 // the number of the last change that was seen
	#loading = 0
	#names = '' // of the tools that are listed
	#model = field('input', 'model', { list: 'models', autocomplete: 'off', spellcheck: 'false' })
	#persona = field('input', 'persona', { autocomplete: 'off' })
	#about = field('textarea', 'about', { rows: '3' })
	#confirm = box('confirm')
	#models = el('datalist', { id: 'models' })
	#runtime = el('dl', { class: 'facts' })
	#tools = el('fieldset')
	#wrong = el('p', { class: 'bar-state fail', role: 'alert', hidden: true })
	#body

	constructor(api) {
		this.#api = api
		this.#body = el(
			'div',
			{ class: 'settings' },
			this.#wrong,
			labelled('Model', this.#model),
			this.#models,
			labelled('Persona', this.#persona),
			labelled('Instructions', this.#about),
			el('label', { class: 'check' }, this.#confirm, el('span', {}, 'Ask before each command')),
			this.#runtime,
			this.#tools,
		)
		const persona = () => this.#change({ persona: { name: this.#persona.value.trim(), description: this.#about.value.trim() } })
		this.#model.addEventListener('change', () => this.#change({ model: this.#model.value.trim() }))
		this.#persona.addEventListener('change', persona)
		this.#about.addEventListener('change', persona)
		this.#confirm.addEventListener('change', () => this.#change({ confirm_bash: this.#confirm.checked }))
		this.#tools.addEventListener('change', ({ target }) => this.#change({ tools: { [target.dataset.tool]: target.checked } }))
	}

	async open() {
		const one = this.#api.at()
		const settings = await one.get('settings')
		if (!one.isShown) return
		this.#one = one
		this.#loading++
		this.#wrong.hidden = true
		this.#show(settings)
		openDialog('Settings', [this.#body])
	}

	/** Takes in the state of the session: a setting may have changed. */
	update({ set }) {
		if (set === this.#set) return
		this.#set = set
		if (this.#isOpen) this.#load(this.#one.get('settings')).catch(() => {}) // the next change tries again
	}

	get #isOpen() {
		return $('dialog').open && this.#body.isConnected
	}

	/** Shows the settings that a request answers with, unless a later one was made. */
	async #load(request) {
		const mine = ++this.#loading
		const settings = await request
		if (mine === this.#loading) this.#show(settings)
	}

	/** Changes something, or says why that is not possible and shows what is set. */
	async #change(change) {
		const one = this.#one
		this.#wrong.hidden = true
		try {
			await this.#load(one.patch('settings', change))
		} catch (error) {
			if (one !== this.#one) return
			this.#wrong.textContent = error.message
			this.#wrong.hidden = false
			await this.#load(one.get('settings')).catch(() => {})
		}
	}

	#show({ model, default_model: standard, models, persona, confirm_bash: confirm, tools, runtime }) {
		set(this.#model, model)
		this.#model.placeholder = standard || 'the model’s own default'
		this.#models.replaceChildren(...models.map((name) => el('option', { value: name })))
		set(this.#persona, persona.name)
		set(this.#about, persona.description)
		this.#confirm.checked = confirm
		this.#runtime.replaceChildren(...facts(runtime))
		this.#list(tools)
	}

	/** Lists the tools. The boxes stay as long as the tools are the same, and so the focus does. */
	#list(tools) {
		const names = tools.map(({ name }) => name).join()
		if (names !== this.#names) {
			this.#names = names
			const row = ({ name }) => el('label', { class: 'check' }, box('tool-' + name, { 'data-tool': name }), el('span', {}, el('code', {}, visible(name)), el('span', { class: 'muted f1' })))
			this.#tools.replaceChildren(el('legend', {}, 'Tools'), ...tools.map(row))
		}
		for (const [i, { enabled, note, about }] of tools.entries()) {
			const row = this.#tools.children[i + 1]
			row.querySelector('input').checked = enabled
			row.querySelector('.muted').textContent = visible(note ? 'unavailable: ' + note : about)
		}
	}
}

function field(tag, key, attributes) {
	return el(tag, { class: 'field', 'data-setting': key, ...attributes })
}

function box(key, attributes) {
	return el('input', { type: 'checkbox', 'data-setting': key, ...attributes })
}

function labelled(words, field) {
	return el('label', { class: 'fill' }, el('span', {}, words), field)
}

/** Shows a value in a field, unless somebody types another one there. */
function set(field, value) {
	const typed = field === document.activeElement && field.value !== field.defaultValue
	field.defaultValue = value
	if (!typed) field.value = value
}

/** Where commands run, and how they are contained. */
function facts({ kind, image, workspace, host_dir: dir, network, allowed_hosts: hosts, protection, protection_note: note, notes, fallback }) {
	const all = {
		Commands: { docker: 'in a container', local: 'on this machine' }[kind] ?? kind,
		Image: image,
		Workspace: dir || workspace,
		Network: network ? 'open' : hosts?.length ? 'only ' + hosts.join(', ') : 'off',
		Protection: protection && protection + (note ? `: ${note}` : ''),
		Notes: notes?.join(' · '),
		'Why not in Docker': fallback,
	}
	return Object.entries(all)
		.filter(([, fact]) => fact)
		.flatMap(([name, fact]) => [el('dt', {}, name), el('dd', {}, visible(fact))])
}
