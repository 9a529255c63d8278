//go:build !unix

package tree

// nonblock has no meaning here.
const nonblock = 0
