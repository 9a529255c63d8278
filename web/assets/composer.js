// The field for messages: sending, queueing, answering, attaching, completing.

import { $, bytes, el, visible } from './dom.js'
import { Draft, attached, attachedAgain } from './draft.js'
import { showWrong } from './status.js'

const settled = 500 // ms: no key answers a question that is younger

/** Composer is the field at the end of the conversation. */
export class Composer {
	#api
	#log
	#state = {}
	#drafts = new Map() // session → Draft
	#draft = new Draft() // of the session that is shown; its text is that of the field
	#hints = []
	#selected = -1
	#asked = 0 // number of the last request for hints
	#escaped = false // Escape was pressed once with text in the field
	#question = null // the element of the open question
	#since = 0 // when the question was seen first
	#before = false // the text was begun before the question came

	constructor(api, log) {
		this.#api = api
		this.#log = log
		this.text = $('text')
		$('composer').addEventListener('submit', (e) => {
			e.preventDefault()
			this.submit()
		})
		this.text.addEventListener('keydown', (e) => this.#key(e))
		this.text.addEventListener('input', () => this.#typed())
		this.text.addEventListener('blur', () => this.#showHints([]))
		this.text.addEventListener('paste', (e) => {
			const files = [...(e.clipboardData?.files ?? [])]
			if (!files.length) return
			e.preventDefault()
			this.attach(files)
		})
		$('attach').addEventListener('change', (e) => {
			this.attach([...e.target.files])
			e.target.value = ''
		})
		$('hints').addEventListener('mousedown', (e) => {
			e.preventDefault() // the field keeps the focus
			const i = [...$('hints').children].indexOf(e.target.closest('li'))
			if (i >= 0) this.#complete(i)
		})
		this.#label()
	}

	/** Takes in what the session does now. */
	update(state) {
		this.#state = state
		this.seeQuestion()
	}

	/** Looks for a question that the next message answers. */
	seeQuestion() {
		const question = this.#log.question() ?? null
		if (question?.dataset.key !== this.#question?.dataset.key) {
			this.#since = performance.now()
			this.#before = !!question && !!this.text.value.trim()
		}
		this.#question = question
		this.#label()
	}

	/** Keeps what is typed for the session that was shown, and shows what was for another. */
	change(session) {
		this.#draft.text = this.text.value
		this.#draft = this.#draftOf(session)
		this.text.value = this.#draft.text
		this.#state = {}
		this.#question = null
		this.#escaped = false
		this.#showFiles()
		this.#showHints([])
		this.#label()
		this.#tellWrong()
	}

	#draftOf(session) {
		if (!this.#drafts.has(session)) this.#drafts.set(session, new Draft())
		return this.#drafts.get(session)
	}

	/** Changes a draft, and shows that if it is the one in the field. */
	#edit(draft, change) {
		if (draft !== this.#draft) {
			change()
			return
		}
		draft.text = this.text.value
		change()
		this.text.value = draft.text
		this.#showFiles()
		this.#changed()
		this.#showHints([]) // nobody has typed
		this.#tellWrong()
		this.text.focus()
	}

	/** Says, once, what went wrong with the draft. */
	#tellWrong() {
		showWrong(this.#draft.wrong)
		this.#draft.wrong = ''
	}

	/** Puts back what a message of a session had that was taken back: its text, and images in base64. */
	restore(session, { text = '', images = [] }) {
		const draft = this.#draftOf(session)
		this.#edit(draft, () => draft.prepend(text, images.map(attachedAgain)))
	}

	/** Sends what is in the field. */
	async submit() {
		const text = this.text.value
		const draft = this.#draft
		const { files } = draft
		if (!text.trim() && !files.length) return
		const one = this.#api.at()
		this.text.value = draft.wrong = ''
		draft.files = []
		this.#showFiles()
		this.#showHints([])
		showWrong('')
		try {
			await this.#send(one, text, files)
			if (one.isShown) this.#log.latest()
		} catch (error) {
			this.#edit(draft, () => {
				draft.prepend(text, files)
				draft.wrong = error.message
			})
		}
		this.seeQuestion()
	}

	#send(one, text, files) {
		if (this.#isShell(text) && !files.length) return one.post('shell', { command: text.trimStart().slice(1) })
		if (this.#isCommand(text) && !files.length) return this.#command(one, text.trim())
		const id = this.#answers && this.#question.querySelector('[data-ask]')?.dataset.ask
		if (id && !files.length) return one.post('asks/' + encodeURIComponent(id), { answer: text.trim() })
		const attachments = files.map(({ name, data }) => ({ name, data }))
		return one.post('messages', { text, attachments, queue: !!this.#state.busy || this.#waits })
	}

	/** Has a command carried out; /exit asks to end the session. */
	async #command(one, line) {
		const { can } = this.#state
		const { leave } = await one.post('commands', { line })
		if (!leave) return
		if (!can?.close) throw new Error('The program that shows this session can end it.')
		await one.delete()
	}

	#isCommand(text) {
		return this.#state.can?.commands && /^\/([a-z]|$)/.test(text.trimStart())
	}

	/** A command line for the workspace, of which the agent does not hear. */
	#isShell(text) {
		return this.#state.can?.shell && text.trimStart().startsWith('!')
	}

	/** There is a question that the next message answers: one without a field of its own. */
	get #open() {
		return !!this.#question && !this.#question.querySelector('input')
	}

	/** What is typed answers the open question. */
	get #answers() {
		return this.#open && !this.#before
	}

	/** What is typed was begun before the question came, and does not answer it. */
	get #waits() {
		return this.#open && this.#before
	}

	/** Says what sending will do. */
	#label() {
		const { busy } = this.#state
		const runs = this.#isShell(this.text.value)
		$('send').textContent = runs ? 'Run' : this.#answers ? 'Answer' : busy || this.#waits ? 'Queue' : 'Send'
		this.text.placeholder = this.#answers
			? 'Write your own answer'
			: busy
				? 'Send another message while it works'
				: 'Ask for something, or describe a task'
		const hint = $('hint')
		const kbd = (k) => el('kbd', {}, k)
		if (this.#escaped) hint.replaceChildren(kbd('Esc'), ' again stops')
		else if (runs) hint.replaceChildren(kbd('Enter'), ' runs it in the workspace; the agent doesn’t see it')
		else if (this.#waits) {
			const button = el('button', { type: 'button', class: 'btn' }, 'Use as the answer')
			button.addEventListener('click', () => {
				this.#before = false
				this.submit()
			})
			hint.replaceChildren(button)
		} else if (this.#answers) hint.replaceChildren(kbd('Enter'), ' answers')
		else if (busy) hint.replaceChildren(kbd('Enter'), ' queues it for the next step')
		else hint.replaceChildren(kbd('Enter'), ' sends, ', kbd('Shift Enter'), ' adds a line')
		hint.classList.toggle('hint', runs || !this.#waits)
	}

	#typed() {
		this.#changed()
		this.#findHints()
	}

	/** Takes note of another text in the field. */
	#changed() {
		this.#escaped = false
		if (!this.text.value.trim()) this.#before = false
		this.#label()
	}

	#key(e) {
		if (e.isComposing) return
		if (this.#hints.length && this.#keyOfHints(e)) {
			e.preventDefault()
			return
		}
		if (e.key === 'Enter' && !e.shiftKey && !e.altKey) {
			e.preventDefault()
			this.submit()
		} else if (e.key === 'Escape') {
			this.#escape(e)
		} else if (/^[1-9]$/.test(e.key) && !e.ctrlKey && !e.metaKey && !e.altKey) {
			this.#digit(e)
		}
	}

	/** Escape stops the agent: at once, or the second time when something is typed. */
	#escape(e) {
		if (!this.#state.busy && !this.#state.errand && !this.#state.shell) return
		e.preventDefault()
		if (this.text.value && !this.#escaped) {
			this.#escaped = true
			this.#label()
			return
		}
		this.#escaped = false
		$('stop').click()
		this.#label()
	}

	/** A digit chooses the option of an open question, if nothing is typed. */
	#digit(e) {
		if (this.text.value || !this.#question || performance.now() - this.#since < settled) return
		const option = this.#question.querySelectorAll('[data-act=answer]')[e.key - 1]
		if (!option) return
		e.preventDefault()
		option.click()
	}

	/** Adds files to the next message of the session that is shown. */
	async attach(files) {
		const draft = this.#draft
		const read = await Promise.allSettled(files.map(attached))
		this.#edit(draft, () => {
			draft.files.push(...read.flatMap(({ value }) => value ?? []))
			draft.wrong = read.flatMap(({ reason }) => reason?.message ?? []).join(' ')
		})
	}

	#showFiles() {
		const draft = this.#draft
		$('attached').replaceChildren(
			...draft.files.map((file) => {
				const remove = el('button', { type: 'button', class: 'btn quiet icon', 'aria-label': 'Remove ' + visible(file.name) }, '✕')
				remove.addEventListener('click', () => {
					draft.files = draft.files.filter((f) => f !== file)
					this.#showFiles()
				})
				const picture = file.picture && el('img', { src: file.picture, alt: '' })
				return el('div', { class: 'attached' }, picture, el('span', {}, `${visible(file.name)} · ${bytes(file.size)}`), remove)
			}),
		)
	}

	/** Looks for how a command, or the path of a file after an @, goes on. */
	async #findHints() {
		const line = this.text.value.slice(0, this.text.selectionStart)
		// Until there is an answer, what was offered and does not fit any more is not.
		const fits = ({ start, text }) => start <= line.length && text.startsWith(line.slice(start))
		if (!this.#hints.every(fits)) this.#showHints(this.#hints.filter(fits))
		const asked = ++this.#asked
		const path = line.match(/(?:^|\s)@([^\s@]*)$/)?.[1]
		let hints = []
		if (path !== undefined && this.#state.can?.files) hints = await this.#paths(line, path).catch(() => [])
		else if (this.#isCommand(line)) hints = await this.#commands(line).catch(() => [])
		if (asked === this.#asked) this.#showHints(hints)
	}

	async #commands(line) {
		const { completions } = await this.#api.at().get('completions', { line })
		return completions.map(({ line, word, summary }) => ({ text: line, start: 0, shown: visible(word), help: visible(summary ?? '') }))
	}

	async #paths(line, path) {
		const at = path.lastIndexOf('/') + 1
		const { files } = await this.#api.at().get('files', { path: path.slice(0, at).replace(/\/$/, '') })
		const start = line.length - path.length
		const fits = files.filter((f) => f.path.startsWith(path) && !/\s/.test(f.path))
		return fits.map((f) => ({ text: f.path + (f.dir ? '/' : ' '), start, shown: visible(f.path) + (f.dir ? '/' : '') }))
	}

	#showHints(hints) {
		if (!hints.length) this.#asked++
		this.#hints = hints.slice(0, 12)
		const list = $('hints')
		list.hidden = !this.#hints.length
		list.replaceChildren(
			...this.#hints.map((h, i) =>
				el('li', { role: 'option', id: 'hint-' + i }, el('code', {}, h.shown), h.help && el('span', { class: 'muted' }, h.help)),
			),
		)
		this.#select(this.#hints.length ? 0 : -1)
	}

	#select(i) {
		this.#selected = i
		for (const [n, li] of [...$('hints').children].entries()) {
			li.setAttribute('aria-selected', String(n === i))
			if (n === i) li.scrollIntoView({ block: 'nearest' })
		}
		if (i < 0) this.text.removeAttribute('aria-activedescendant')
		else this.text.setAttribute('aria-activedescendant', 'hint-' + i)
	}

	#keyOfHints({ key, shiftKey }) {
		const n = this.#hints.length
		if (key === 'ArrowDown') this.#select((this.#selected + 1) % n)
		else if (key === 'ArrowUp') this.#select((this.#selected + n - 1) % n)
		else if (key === 'Escape') this.#showHints([])
		else if (key === 'Tab' && !shiftKey) this.#complete(this.#selected)
		else if (key === 'Enter' && !shiftKey) {
			const { text, start } = this.#hints[this.#selected]
			if (this.text.value.slice(start).trim() === text.trim()) return false // it is complete
			this.#complete(this.#selected)
		} else return false
		return true
	}

	#complete(i) {
		const { text, start } = this.#hints[i]
		this.text.setRangeText(text, start, this.text.selectionStart, 'end')
		this.#showHints([])
		this.#label()
		this.text.focus()
		if (text.endsWith('/')) this.#findHints()
	}
}
