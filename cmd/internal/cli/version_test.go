package cli

import (
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestVersion(t *testing.T) {
	t.Parallel()
	sums, err := os.ReadFile(filepath.FromSlash("../../../internal/guest/binary/guest.sha256"))
	require.NoError(t, err)
	facts := printed(t, nil, "version")
	first, rest, _ := strings.Cut(facts, "\n")
	require.Regexp(t, `^pygent \S+$`, first)
	require.Equal(t, first+"\n", printed(t, nil, "--version"))
	require.Contains(t, rest, "commit: ")
	require.Contains(t, rest, "go: "+runtime.Version()+"\n")
	require.Contains(t, rest, "system: "+runtime.GOOS+"/"+runtime.GOARCH+"\n")
	for line := range strings.Lines(string(sums)) {
		sum, guest, _ := strings.Cut(strings.TrimSpace(line), "  guest-")
		require.Contains(t, rest, guest+" "+sum[:12])
	}
}

func TestVersionIsThatOfTheBuild(t *testing.T) {
	t.Parallel()
	built := func(version string, settings ...debug.BuildSetting) *debug.BuildInfo {
		return &debug.BuildInfo{Main: debug.Module{Version: version}, Settings: settings}
	}
	revision := debug.BuildSetting{Key: "vcs.revision", Value: "4472ec4f"}
	when := debug.BuildSetting{Key: "vcs.time", Value: "2026-11-29T10:40:00Z"}
	for name, tt := range map[string]struct {
		info            *debug.BuildInfo
		version, commit string
	}{
		"go install of a tag":     {built("v0.1.0"), "v0.1.0", "not recorded"},
		"a clone":                 {built("v0.1.1-0.20261129104000-4472ec4f0000", revision, when, debug.BuildSetting{Key: "vcs.modified", Value: "false"}), "v0.1.1-0.20261129104000-4472ec4f0000", "4472ec4f of 2026-11-29T10:40:00Z"},
		"a clone with changes":    {built("v0.1.0+dirty", revision, debug.BuildSetting{Key: "vcs.modified", Value: "true"}), "v0.1.0+dirty", "4472ec4f, modified"},
		"without version control": {built("(devel)"), "(devel)", "not recorded"},
		"without information":     {nil, "(devel)", "not recorded"},
	} {
		require.Equal(t, "pygent "+tt.version, facts(tt.info)[0], name)
		require.Equal(t, "commit: "+tt.commit, facts(tt.info)[1], name)
	}
}
