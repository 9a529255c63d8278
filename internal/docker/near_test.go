package docker

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/owner"
)

func TestKernelIsTheSameOnlyInTheSameBoot(t *testing.T) {
	here := owner.ThisPlace().Boot
	require.Equal(t, here != "", sameKernel(here))
	require.False(t, sameKernel(""), "a guest that does not tell may run anywhere")
	require.False(t, sameKernel("00000000-0000-4000-8000-000000000000"))
}

// Files are copied here, and not by the guest, only where both find the same files and no
// device that a command has made.
func TestWhatMayDifferIsLeftToTheGuest(t *testing.T) {
	for name, tt := range map[string]struct {
		config Config
		want   bool
	}{
		"an ordinary container":    {Config{Capabilities: []string{"CHOWN", "DAC_OVERRIDE", "FOWNER"}}, false},
		"a mount beside":           {Config{Mounts: []Mount{{Target: "/data"}, {Target: "/workspaces"}}}, false},
		"a mount over it":          {Config{Mounts: []Mount{{Target: "/workspace/"}}}, true},
		"a mount below":            {Config{Mounts: []Mount{{Target: "/data/../workspace/node_modules"}}}, true},
		"commands that may mount":  {Config{Capabilities: []string{"cap_sys_admin"}}, true},
		"commands that make nodes": {Config{Capabilities: []string{"MKNOD"}}, true},
		"commands that may all":    {Config{Capabilities: []string{"ALL"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, (&commander{config: tt.config}).mayDiffer())
		})
	}
}
