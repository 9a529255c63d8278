// The HTTP interface of the server, as the page uses it.

/** Where the server's pages begin; these files are in its directory assets. */
export const base = new URL('../', import.meta.url)

const place = 'pygent:token:' + base.pathname

/**
 * The token of the server: that of the address's fragment, which is removed from the
 * address, else what an earlier page of this origin kept. There is no cookie: browsers
 * send cookies to all ports of a host, and one may be a server of the agent's.
 */
export function takeToken() {
	const fragment = new URLSearchParams(location.hash.slice(1).replace(/^[^=&]+$/, 'token=$&'))
	const token = fragment.get('token')
	if (token === null) return localStorage.getItem(place) ?? ''
	localStorage.setItem(place, token)
	fragment.delete('token')
	const rest = fragment.toString()
	history.replaceState(null, '', location.pathname + location.search + (rest && '#' + rest))
	return token
}

/** What the server answered instead of what was asked for. */
export class APIError extends Error {
	constructor(status, code, message) {
		super(message)
		this.status = status
		this.code = code
	}
}

/** The client of one page. */
export class API {
	constructor(token) {
		this.token = token
		this.session = ''
	}

	/** The path of something of the session that is shown. */
	in(path, query) {
		const q = query ? '?' + new URLSearchParams(query) : ''
		return `sessions/${encodeURIComponent(this.session)}/${path}${q}`
	}

	get(path) {
		return this.#call('GET', path)
	}

	post(path, body = {}) {
		return this.#call('POST', path, JSON.stringify(body), 'application/json')
	}

	patch(path, body) {
		return this.#call('PATCH', path, JSON.stringify(body), 'application/json')
	}

	delete(path) {
		return this.#call('DELETE', path, undefined, 'application/json')
	}

	upload(path, file) {
		return this.#call('PUT', path, file, 'application/octet-stream')
	}

	async #call(method, path, body, type) {
		const headers = {}
		if (this.token) headers.Authorization = 'Bearer ' + this.token
		if (type) headers['Content-Type'] = type
		let answer
		try {
			answer = await fetch(new URL('api/v1/' + path, base), { method, headers, body, credentials: 'same-origin', cache: 'no-store' })
		} catch {
			throw new APIError(0, 'offline', 'The server cannot be reached. Nothing was sent.')
		}
		const text = await answer.text()
		let value
		try {
			value = text ? JSON.parse(text) : {}
		} catch {
			value = { text }
		}
		if (answer.ok) return value
		const { code = 'error', message = `The server answered ${answer.status}.` } = value.error ?? {}
		throw new APIError(answer.status, code, message)
	}
}
