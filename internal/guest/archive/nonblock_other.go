//go:build !unix

package archive

// nonblock has no meaning here.
const nonblock = 0
