// Package ownership gives trees of files to their owner.
package ownership
