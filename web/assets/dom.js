// Small helpers for the document. Whatever the server says becomes elements in
// fragment and nowhere else; texts are set as texts.

const policy = globalThis.trustedTypes?.createPolicy('pygent', {
	createHTML: (html) => html,
	createScriptURL: (url) => url,
})

// What the server never writes. It escapes what models and commands say; this is
// here in case it forgets.
const banned = 'script,style,link,meta,base,iframe,frame,object,embed,form,svg,math,template,portal'
const bannedAttribute = /^(on.*|style|id|srcdoc|formaction|srcset|ping)$/i
const address = /^(https?:|mailto:|#)/i
const picture = /^data:image\/(png|jpeg|gif|webp)[;,]/i

/** Parses HTML of the server without running or loading anything of it. */
export function fragment(html) {
	const template = document.createElement('template')
	template.innerHTML = policy ? policy.createHTML(html) : html
	for (const e of template.content.querySelectorAll(banned)) e.remove()
	for (const e of template.content.querySelectorAll('*')) {
		for (const { name, value } of [...e.attributes]) {
			const bad =
				bannedAttribute.test(name) ||
				(name === 'href' && !address.test(value)) ||
				(name === 'src' && !picture.test(value))
			if (bad) e.removeAttribute(name)
		}
	}
	return template.content
}

/** An address of a script that may be run. */
export function scriptURL(url) {
	return policy ? policy.createScriptURL(String(url)) : url
}

/** The element of the page with this id. */
export const $ = (id) => document.getElementById(id)

/** Makes an element: el('a', {class: 'x', href: '#'}, 'text', child, …). */
export function el(tag, attributes = {}, ...children) {
	const e = document.createElement(tag)
	for (const [name, value] of Object.entries(attributes)) {
		if (value === true) e.setAttribute(name, '')
		else if (value !== false && value !== undefined && value !== null) e.setAttribute(name, value)
	}
	e.append(...children.filter((c) => c !== undefined && c !== null && c !== false))
	return e
}

/** A time since a moment: "14 s", "1:24", "2:03:10". */
export function elapsed(since, now = Date.now()) {
	const s = Math.max(0, Math.floor((now - since) / 1000))
	if (s < 60) return `${s} s`
	const two = (n) => String(n).padStart(2, '0')
	if (s < 3600) return `${Math.floor(s / 60)}:${two(s % 60)}`
	return `${Math.floor(s / 3600)}:${two(Math.floor(s / 60) % 60)}:${two(s % 60)}`
}

/** A size for people: "812 B", "3.1 KB", "48 KB". */
export function bytes(n) {
	for (const unit of ['B', 'KB', 'MB']) {
		if (n < 1000) return `${n < 10 && unit !== 'B' ? n.toFixed(1) : Math.round(n)} ${unit}`
		n /= 1000
	}
	return `${n.toFixed(1)} GB`
}

/** A count for people: "812", "54k", "1.2M". */
export function count(n) {
	if (n < 1000) return String(n)
	if (n < 1e6) return `${Math.round(n / 1000)}k`
	return `${(n / 1e6).toFixed(1)}M`
}

/** A name with its control and invisible characters shown as signs. */
export function visible(name) {
	return name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}]/gu, (c) => {
		const code = c.codePointAt(0)
		return code < 0x20 ? String.fromCharCode(0x2400 + code) : `<U+${code.toString(16).toUpperCase().padStart(4, '0')}>`
	})
}
