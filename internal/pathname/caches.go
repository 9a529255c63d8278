package pathname

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

// IsVersionControl reports whether a directory of a name is that of a version control.
func IsVersionControl(name string) bool { return name == ".git" || name == ".hg" || name == ".svn" }

// IsCache reports whether a directory of a name holds nothing of a project's own.
func IsCache(name string) bool { return IsVersionControl(name) || slices.Contains(filled, name) }
