// Package enginetest starts Docker Engines for single tests, which may do anything to
// them: stop, kill and freeze them. There are such engines on Linux only.
package enginetest
