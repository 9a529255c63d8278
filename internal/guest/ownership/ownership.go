// Package ownership changes the owner of whole directory trees.
package ownership
