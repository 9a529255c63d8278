// The HTTP interface of the server, as the page uses it.

/** Where the server's pages begin; these files are in its directory assets. */
export const base = new URL('../', import.meta.url)

const place = 'pygent:token:' + base.pathname

/**
 * Takes over the token of the server, if the address has one in its fragment, from which
 * it is removed. All pages of this origin use the token that one of them took last. There is no cookie: browsers
 * send cookies to all ports of a host, and one may be a server of the agent's.
 *
 * Any link can have a fragment, also one in an answer of the model. What the server
 * refuses does not take the place of a token that it knows.
 */
export async function takeToken() {
	const kept = keptToken()
	const given = tokenOfAddress()
	if (given === null || given === kept) return
	if (kept && (await isRefused(given)) && !(await isRefused(kept))) return
	localStorage.setItem(place, given)
}

/** The token that the pages of this origin have now. */
const keptToken = () => localStorage.getItem(place) ?? ''

/** Has a page act when another page of this origin has taken a new token. */
export function onNewToken(act) {
	addEventListener('storage', (e) => {
		if (e.key === place) act()
	})
}

/** Takes the token out of the address; null if there is none. */
function tokenOfAddress() {
	const fragment = new URLSearchParams(location.hash.slice(1).replace(/^[^=&]+$/, 'token=$&'))
	const token = fragment.get('token')
	if (token === null) return null
	fragment.delete('token')
	const rest = fragment.toString()
	history.replaceState(null, '', location.pathname + location.search + (rest && '#' + rest))
	return token
}

/** Whether the server does not know a token; one that does not answer has not said so. */
async function isRefused(token) {
	const headers = { Authorization: 'Bearer ' + token }
	const answer = await fetch(new URL('api/v1/openapi.json', base), { method: 'HEAD', headers, cache: 'no-store' }).catch(() => null)
	return answer?.status === 401
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
	session = '' // that the page shows

	get token() {
		return keptToken()
	}

	/** What can be asked about a session: the one that is shown now, or another one. */
	at(session = this.session) {
		return new SessionAPI(this, session)
	}

	get(path) {
		return this.call('GET', path)
	}

	post(path, body = {}) {
		return this.call('POST', path, JSON.stringify(body), 'application/json')
	}

	patch(path, body) {
		return this.call('PATCH', path, JSON.stringify(body), 'application/json')
	}

	delete(path) {
		return this.call('DELETE', path, undefined, 'application/json')
	}

	async call(method, path, body, type) {
		const headers = {}
		if (this.token) headers.Authorization = 'Bearer ' + this.token
		if (type) headers['Content-Type'] = type
		let answer, text
		try {
			answer = await fetch(new URL('api/v1/' + path, base), { method, headers, body, credentials: 'same-origin', cache: 'no-store' })
			text = await answer.text()
		} catch {
			// The connection may have ended before the request, or after it was carried out.
			const doubt = method === 'GET' ? '' : ' It may have received this.'
			throw new APIError(0, 'offline', 'The server does not answer.' + doubt)
		}
		const value = parsed(text)
		if (answer.ok) return value
		const { code = 'error', message = `The server answered ${answer.status}.` } = value.error ?? {}
		throw new APIError(answer.status, code, message)
	}
}

function parsed(text) {
	try {
		return text ? JSON.parse(text) : {}
	} catch {
		return { text }
	}
}

/** SessionAPI asks about one session, also when the page has come to show another one. */
export class SessionAPI {
	#api

	constructor(api, session) {
		this.#api = api
		this.session = session
	}

	/** The page shows the session. */
	get isShown() {
		return this.#api.session === this.session
	}

	get(path, query) {
		return this.#api.get(this.#path(path, query))
	}

	post(path, body) {
		return this.#api.post(this.#path(path), body)
	}

	patch(path, body) {
		return this.#api.patch(this.#path(path), body)
	}

	delete(path) {
		return this.#api.delete(this.#path(path))
	}

	upload(path, query, file) {
		return this.#api.call('PUT', this.#path(path, query), file, 'application/octet-stream')
	}

	#path(path, query) {
		const session = 'sessions/' + encodeURIComponent(this.session)
		return session + (path ? '/' + path : '') + (query ? '?' + new URLSearchParams(query) : '')
	}
}
