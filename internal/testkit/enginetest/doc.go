// Package enginetest has what tests need of Docker Engines: the images in which they run
// commands, and engines of their own for single tests, which may do anything to them:
// stop, kill and freeze them. There are such engines on Linux only.
//
// No test fetches an image. The names of ours are of the domain invalid, which is reserved
// (RFC 6761), so no registry can serve what somebody has registered under them; and tests
// ask with [Need] before they make a container.
package enginetest
