// Package exchange exchanges two names of a directory at once, where the system
// can, so that what has a name is at any moment the old or the new and never
// missing.
package exchange
