package cli

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/x/pygent/internal/guest/binary"
)

// untagged is the version of a snapshot build, which no tag names. The linker sets it.
var untagged string

// versionCmd prints the facts that a bug report needs.
type versionCmd struct{}

// Help says what the facts are for.
func (versionCmd) Help() string {
	return `Paste all of it into a bug report. The guest is the helper process that pygent
starts in a sandbox. "pygent --version" prints only the first line.`
}

// Run prints the facts.
func (versionCmd) Run(out *output) error {
	info, _ := debug.ReadBuildInfo()
	for _, line := range facts(info) {
		out.println(line)
	}
	return nil
}

// version returns the version that this program was built as.
func version() string {
	info, _ := debug.ReadBuildInfo()
	return versionOf(info)
}

// versionOf returns the version in a program's build information: a tag, or what Go makes
// of a commit; "(devel)" if it has neither. The information may be nil.
func versionOf(info *debug.BuildInfo) string {
	if info == nil {
		return cmp.Or(untagged, "(devel)")
	}
	return cmp.Or(untagged, info.Main.Version, "(devel)")
}

// facts are the lines of pygent version.
func facts(info *debug.BuildInfo) []string {
	return []string{
		"pygent " + versionOf(info),
		"commit: " + commitOf(info),
		"go: " + runtime.Version(),
		"system: " + runtime.GOOS + "/" + runtime.GOARCH,
		"guest: " + guests("amd64", "arm64"),
	}
}

// commitOf names the commit in a program's build information. go install of a version
// records none, because it builds from the module cache.
func commitOf(info *debug.BuildInfo) string {
	set := map[string]string{}
	if info != nil {
		for _, s := range info.Settings {
			set[s.Key] = s.Value
		}
	}
	commit := cmp.Or(set["vcs.revision"], "not recorded")
	if at := set["vcs.time"]; at != "" {
		commit += " of " + at
	}
	if set["vcs.modified"] == "true" {
		commit += ", modified"
	}
	return commit
}

// guests names the guests that this program has, by the first digits of their checksums.
func guests(platforms ...string) string {
	text := ""
	for _, arch := range platforms {
		sum, err := binary.Checksum(arch)
		if err != nil {
			return err.Error()
		}
		if text != "" {
			text += ", "
		}
		text += fmt.Sprintf("%s %x", arch, sum[:6])
	}
	return text
}
