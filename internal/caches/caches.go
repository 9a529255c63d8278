// Package caches knows the directories of a project that hold nothing of the project's own:
// what programs install, build or cache there, and can put there again, and the directories
// in which a version control keeps its own files. Nobody names a file in them, and nobody
// wants a copy of them who copies the directory above.
//
// Names that projects also give to directories of their own, such as "build", are not among
// them. Checkpoints have a shorter list of their own (internal/store): what an undo does
// not bring back has to be lost without harm.
package caches

import "slices"

// filled are directories that programs fill and can fill again.
var filled = []string{
	"node_modules", "bower_components", ".yarn", ".pnpm-store", ".parcel-cache", ".turbo",
	"__pycache__", ".venv", "venv", ".tox", ".nox", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".ipynb_checkpoints",
	".gradle", ".terraform", ".dart_tool", ".cache",
}

// BuildFiles are files beside which a directory [Target] is the output of a build.
var BuildFiles = []string{"Cargo.toml", "pom.xml"}

// Target is the directory into which Cargo and Maven build.
const Target = "target"

// IsControl reports whether a directory of a name is that of a version control.
func IsControl(name string) bool { return name == ".git" || name == ".hg" || name == ".svn" }

// Is reports whether a directory of a name holds nothing of a project's own.
func Is(name string) bool { return IsControl(name) || slices.Contains(filled, name) }
