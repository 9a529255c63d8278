package pygent_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
)

// What a path can mean is tested in internal/pathname; here, that readers and writers ask.
func TestToolsFindTheFileThatAPathMeans(t *testing.T) {
	t.Parallel()
	forEachStarted(t, func(t *testing.T, rt pygent.Runtime) {
		info := rt.(pygent.Describer).Describe(t.Context())
		bash(t, rt, "mkdir src; echo x=1 >src/main.py; printf old >caf\u00e9")
		for _, tt := range []struct{ tool, path, want string }{
			{"write_file", `src\new.py`, "created src/new.py"},
			{"write_file", `src\b\new.py`, "created src/b/new.py"},
			{"write_file", `lib\new.py`, "created lib/new.py"},
			{"write_file", "./~/x", "!no file or directory ~"},
			{"write_file", "file://localhost" + info.Workspace + "/a%20b", "created a b"},
			{"write_file", "'src/main.py' ", "replaced src/main.py"},
			{"write_file", "cafe\u0301", "replaced caf\u00e9"},
			{"edit_file", `src\main.py`, "edited src/main.py"},
			{"download_file", `a\ b`, "1\tx"},
			{"download_file", `"src"`, "src: a directory"},
			{"write_file", "~/x", "!outside the workspace"},
			{"write_file", "$HOME/x", "!outside the workspace"},
			{"write_file", `C:\Users\me\x`, "!a path of Windows"},
			{"edit_file", "~", "!outside the workspace"},
			{"read_image", "https://example.org/x.png", "!is a URL"},
		} {
			args := map[string]any{"path": tt.path}
			switch tt.tool {
			case "write_file":
				args["content"] = "x"
			case "edit_file":
				args["old_text"], args["new_text"] = "x", "y"
			}
			got, err := callOn(t, rt, tt.tool, args)
			if says, refused := strings.CutPrefix(tt.want, "!"); refused {
				require.ErrorContains(t, err, says, tt.path)
				continue
			}
			require.NoError(t, err, tt.path)
			require.Contains(t, got.Content, tt.want)
		}
		require.Equal(t, "a b\ncaf\u00e9\nlib\nsrc\nsrc/b\nsrc/main.py\nsrc/new.py\n", bash(t, rt, "LC_ALL=C; ls; ls src | sed s,^,src/,").Output)
		if info.HostDir != "" {
			_, err := callOn(t, rt, "write_file", map[string]any{"path": info.HostDir + "/src/host", "content": "x"})
			require.NoError(t, err)
			require.Equal(t, "x", bash(t, rt, "cat src/host").Output)
		}
		res, err := callOn(t, rt, "bash", map[string]any{"cmd": "pwd", "cwd": `.\src`})
		require.NoError(t, err)
		require.Contains(t, res.Content, "/src\n")

		bash(t, rt, `mkdir '~'; echo mine >'~/x'; echo mine >'a\b'`)
		for _, path := range []string{"~/x", `a\b`} {
			got, err := callOn(t, rt, "download_file", map[string]any{"path": path})
			require.NoError(t, err)
			require.Contains(t, got.Content, "1\tmine")
		}
	})
}
