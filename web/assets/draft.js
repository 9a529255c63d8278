// What is about to be said in a session. Each session has its own, so that what comes
// back late, a message that could not be sent or a file that was read, comes to it.

import { bytes } from './dom.js'

const largestFile = 8 << 20
const pictures = ['image/png', 'image/jpeg', 'image/gif', 'image/webp'] // an SVG can hold a script

/** Draft is a message that is not sent. */
export class Draft {
	text = ''
	files = [] // {name, data: base64, size, picture: data URL of an image, or empty}
	wrong = '' // why it could not be sent, or a file not be added

	/** Puts a message before what is there. */
	prepend(text, files = []) {
		this.text = [text, this.text].filter((t) => t.trim()).join('\n')
		this.files.unshift(...files)
	}
}

/** A file as it goes along with a message. It is an error if it cannot. */
export async function attached(file) {
	if (file.size > largestFile) {
		throw new Error(`${file.name} has ${bytes(file.size)}; a message takes up to ${bytes(largestFile)}. Upload it into the workspace instead.`)
	}
	const url = await dataURL(file).catch(() => {
		throw new Error(`${file.name} cannot be read; a folder cannot be attached.`)
	})
	return {
		name: file.name || 'image.png',
		size: file.size,
		data: url.slice(url.indexOf(',') + 1),
		picture: pictures.includes(file.type) ? url : '',
	}
}

/** An image of a message that was sent, as the server gives it back. */
export function attachedAgain({ name, data }) {
	const suffix = name.split('.').at(-1).toLowerCase()
	const type = 'image/' + (suffix === 'jpg' ? 'jpeg' : suffix)
	return { name, data, size: atob(data).length, picture: pictures.includes(type) ? `data:${type};base64,${data}` : '' }
}

/** The content of a file, in base64 after a comma. */
function dataURL(file) {
	return new Promise((done, fail) => {
		const reader = new FileReader()
		reader.onload = () => done(reader.result)
		reader.onerror = () => fail(reader.error)
		reader.readAsDataURL(file)
	})
}
