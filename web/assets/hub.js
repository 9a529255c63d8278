// The one stream of a browser: HTTP/1.1 has six connections a host, so that with a
// stream a tab the seventh tab would hang. A Hub reads the stream for all pages, and
// keeps of each session that is shown what a page needs to show it from the start.

const base = new URL('../', import.meta.url)

const silence = 40_000 // the server says something every 15 s
const longest = 15_000 // between two attempts
const keptOutput = 64 << 10 // characters of a command's live output

/** View is what pages show of one session. */
class View {
	at = '' // what the stream is resumed from; "" is the start
	parts = new Map() // key → {parent, html, out}, in the order of their creation
	state = null

	/** Takes in an operation. */
	apply(op) {
		if (op.at) this.at = op.at
		switch (op.op) {
			case 'reset':
				this.parts.clear()
				break
			case 'put':
				this.#drop(op.key)
				// A Map keeps the place of a key that is set again.
				this.parts.set(op.key, { parent: op.parent, html: op.html, out: '' })
				break
			case 'del':
				this.#drop(op.key)
				this.parts.delete(op.key)
				break
			case 'out': {
				const part = this.parts.get(op.key)
				if (part) part.out = (part.out + op.text).slice(-keptOutput)
				break
			}
			case 'state':
				this.state = op
		}
	}

	/** Forgets what is in a part. */
	#drop(key) {
		if (!this.parts.has(key)) return
		for (const [child, { parent }] of this.parts) {
			if (parent !== key) continue
			this.#drop(child)
			this.parts.delete(child)
		}
	}

	/** What brings an empty page up to date. */
	*all(session) {
		yield { op: 'reset', session }
		for (const [key, { parent, html, out }] of this.parts) {
			yield { op: 'put', session, key, parent, html }
			if (out) yield { op: 'out', session, key, text: out }
		}
		if (this.state) yield this.state
	}
}

/** Hub connects pages, each by a MessagePort, to the server's stream. */
export class Hub {
	#pages = new Map() // port → the session that the page shows
	#views = new Map() // session → View
	#token = ''
	#hello = null // what the server offers
	#list = null // the last list of sessions
	#link = { op: 'link', state: 'new' }
	#stop = null // AbortController of the stream or of the pause before it
	#running = false
	#changed = false // the stream is to be opened anew at once

	add(port) {
		port.onmessage = ({ data }) => this.#hear(port, data)
	}

	#hear(port, message) {
		switch (message.do) {
			case 'show':
				this.#show(port, message)
				break
			case 'alive':
				// The page holds the lock while it lives, however it ends.
				navigator.locks.request(message.lock, () => this.#leave(port))
				break
			case 'bye':
				this.#leave(port)
				break
			case 'retry': // the page became visible, or the network is back
				if (this.#link.state === 'up') break
				this.#changed = true // an attempt that fails for that is no reason to wait longer
				this.#stop?.abort()
		}
	}

	#show(port, { session, token }) {
		this.#pages.set(port, session)
		const ops = [this.#link]
		if (this.#hello) ops.push(this.#hello)
		if (this.#list) ops.push(this.#list)
		const view = this.#views.get(session)
		if (view) ops.push(...view.all(session))
		port.postMessage(ops)
		if (token !== this.#token) {
			this.#token = token
			this.#changed = true
		}
		this.#watch()
	}

	#leave(port) {
		if (this.#pages.delete(port)) this.#watch()
	}

	/** Reads what the pages show, and nothing else. */
	#watch() {
		const shown = new Set([...this.#pages.values()].filter(Boolean))
		for (const session of this.#views.keys()) {
			if (!shown.has(session)) {
				this.#views.delete(session)
				this.#changed = true
			}
		}
		for (const session of shown) {
			if (!this.#views.has(session)) {
				this.#views.set(session, new View())
				this.#changed = true
			}
		}
		if (!this.#running) this.#run()
		else if (this.#changed || this.#pages.size === 0) this.#stop.abort()
	}

	async #run() {
		this.#running = true
		let failures = 0
		// Tabs that open together share the first stream.
		await Promise.resolve()
		while (this.#pages.size > 0) {
			this.#changed = false
			this.#stop = new AbortController()
			const opened = await this.#read(this.#stop).catch(() => false)
			if (this.#changed || this.#pages.size === 0) {
				failures = 0
				continue
			}
			failures = opened ? 1 : failures + 1
			await this.#pause(failures)
		}
		this.#running = false
	}

	/** Waits before the next attempt, and tells the pages until when. */
	async #pause(failures) {
		let wait = Math.min(longest, 250 * 2 ** failures) * (0.8 + 0.4 * Math.random())
		if (this.#link.state === 'refused' || this.#link.state === 'signed out') wait = longest
		else this.#tell({ op: 'link', state: 'down', until: Date.now() + wait })
		this.#stop = new AbortController()
		const { signal } = this.#stop
		await new Promise((done) => {
			const timer = setTimeout(done, wait)
			signal.addEventListener('abort', () => {
				clearTimeout(timer)
				done()
			})
		})
	}

	/** Reads one stream to its end, and reports whether it began. */
	async #read(stop) {
		const views = {}
		for (const [session, view] of this.#views) views[session] = view.at
		const headers = { 'Content-Type': 'application/json' }
		if (this.#token) headers.Authorization = 'Bearer ' + this.#token
		let timer
		const watchdog = () => {
			clearTimeout(timer)
			timer = setTimeout(() => stop.abort(), silence)
		}
		watchdog()
		try {
			const answer = await fetch(new URL('api/v1/stream', base), {
				method: 'POST',
				headers,
				body: JSON.stringify({ views }),
				signal: stop.signal,
				cache: 'no-store',
			})
			if (!answer.headers.get('Content-Type')?.startsWith('text/event-stream')) {
				this.#tell({ op: 'link', state: await refusal(answer), until: Date.now() })
				return false
			}
			this.#tell({ op: 'link', state: 'up' })
			const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader()
			let rest = ''
			for (;;) {
				const { value, done } = await reader.read()
				if (done) return true
				watchdog()
				const events = (rest + value).split('\n\n')
				rest = events.pop()
				this.#take(events.map(data).filter(Boolean))
			}
		} finally {
			clearTimeout(timer)
		}
	}

	/** Takes operations in, and passes each on to the pages that it concerns. */
	#take(ops) {
		for (const op of ops) {
			if (op.op === 'hello') this.#hello = op
			else if (op.op === 'sessions') this.#list = op
			else this.#views.get(op.session)?.apply(op)
		}
		for (const [port, session] of this.#pages) {
			const own = ops.filter((op) => !op.session || op.session === session)
			if (own.length) port.postMessage(own)
		}
	}

	#tell(link) {
		this.#link = link
		for (const port of this.#pages.keys()) port.postMessage([link])
	}
}

/**
 * What an answer that is no stream says about the link. A host that signs its users in
 * itself may also answer with its page for that.
 */
async function refusal(answer) {
	const code = await answer.json().then(
		({ error }) => error?.code,
		() => '',
	)
	if (!answer.ok && answer.status !== 401 && answer.status !== 403) return 'down'
	return code && code !== 'signed_out' ? 'refused' : 'signed out'
}

/** The operation of a server-sent event, or null of a comment. */
function data(event) {
	const lines = event.split('\n').filter((line) => line.startsWith('data:'))
	return lines.length ? JSON.parse(lines.map((line) => line.slice(5)).join('\n')) : null
}
