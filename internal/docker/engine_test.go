package docker

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEnginesAreFoundAsTheDockerCommandFindsThem(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("paths of Unix")
	}
	config := t.TempDir()
	sum := sha256.Sum256([]byte("colima"))
	id := hex.EncodeToString(sum[:])
	meta := filepath.Join(config, "contexts", "meta", id)
	require.NoError(t, os.MkdirAll(meta, 0o755))
	require.NoError(t, os.WriteFile(filepath.Join(meta, "meta.json"),
		[]byte(`{"Name":"colima","Endpoints":{"docker":{"Host":"unix:///colima.sock","SkipTLSVerify":false}}}`), 0o644))
	tls := filepath.Join(config, "contexts", "tls", id, "docker")
	require.NoError(t, os.MkdirAll(tls, 0o755))
	withCurrent := t.TempDir()
	require.NoError(t, os.CopyFS(withCurrent, os.DirFS(config)))
	require.NoError(t, os.WriteFile(filepath.Join(withCurrent, "config.json"), []byte(`{"currentContext":"colima"}`), 0o644))

	colima := endpoint{host: "unix:///colima.sock", source: "context colima", tlsDir: tls}
	current := colima
	current.tlsDir = filepath.Join(withCurrent, "contexts", "tls", id, "docker")
	for _, tc := range []struct {
		name, host string
		env        map[string]string
		want       []endpoint
	}{
		{"option", "tcp://a:1", map[string]string{"DOCKER_HOST": "tcp://b:1"}, []endpoint{{host: "tcp://a:1", fromEnv: true}}},
		{"DOCKER_HOST before a context", "", map[string]string{"DOCKER_HOST": "ssh://u@b", "DOCKER_CONTEXT": "colima", "DOCKER_CONFIG": config},
			[]endpoint{{host: "ssh://u@b", source: "DOCKER_HOST", fromEnv: true}}},
		{"DOCKER_CONTEXT", "", map[string]string{"DOCKER_CONTEXT": "colima", "DOCKER_CONFIG": config}, []endpoint{colima}},
		{"current context", "", map[string]string{"DOCKER_CONFIG": withCurrent}, []endpoint{current}},
		{"default context", "", map[string]string{"DOCKER_CONFIG": withCurrent, "DOCKER_CONTEXT": "default", "HOME": "/h", "XDG_RUNTIME_DIR": "/x"}, []endpoint{
			{host: "unix:///var/run/docker.sock"},
			{host: "unix:///x/docker.sock", source: "rootless"},
			{host: "unix:///h/.docker/run/docker.sock", source: "Docker Desktop"},
			{host: "unix:///x/podman/podman.sock", source: "Podman"},
			{host: "unix:///run/podman/podman.sock", source: "Podman"},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			found, err := findEndpoints(tc.host, func(name string) string { return tc.env[name] })
			require.NoError(t, err)
			require.Equal(t, tc.want, found)
		})
	}
	_, err := findEndpoints("", func(name string) string {
		return map[string]string{"DOCKER_CONTEXT": "missing", "DOCKER_CONFIG": config}[name]
	})
	require.ErrorContains(t, err, `docker context "missing"`)
}
