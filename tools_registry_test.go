package pygent_test

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// registry serves the package hello for several package managers, a file and a
// git repository. The names in it are made up.
type registry struct {
	*httptest.Server
	scheme string // "http" or "https"
	ca     []byte // PEM certificate to trust
}

func newRegistry(t *testing.T, scheme string) *registry {
	t.Helper()
	mux := http.NewServeMux()
	r := &registry{Server: httptest.NewUnstartedServer(mux), scheme: scheme}
	if scheme == "https" {
		r.StartTLS() // its certificate is for example.com and all subdomains
		r.ca = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.Certificate().Raw})
	} else {
		r.Start()
	}
	t.Cleanup(r.Close)
	serve := func(path string, content []byte) {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) { w.Write(content) })
	}
	serve("/hello.txt", []byte("hello\n"))
	r.servePip(serve)
	r.serveNPM(t, serve)
	r.serveGo(serve)
	r.serveAPT(t, serve)
	mux.Handle("/git/", http.StripPrefix("/git/", http.FileServer(http.Dir(gitRepository(t)))))
	return r
}

// host returns a host name of the server, below example.com.
func (*registry) host(name string) string { return name + ".example.com" }

func (r *registry) url(name, path string) string { return r.scheme + "://" + r.host(name) + path }

// trusted returns the hosts that pip must be told to trust, because there is no
// TLS.
func (r *registry) trusted() string {
	if r.scheme == "https" {
		return ""
	}
	return r.host("pypi") + " " + r.host("files")
}

// servePip serves an index on one host and the files on another, as PyPI does.
func (r *registry) servePip(serve func(string, []byte)) {
	wheel := zipball(
		"hello.py", "print('hello')\n",
		"hello-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: hello\nVersion: 1.0\n",
		"hello-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
		"hello-1.0.dist-info/RECORD", "hello.py,,\nhello-1.0.dist-info/METADATA,,\nhello-1.0.dist-info/WHEEL,,\nhello-1.0.dist-info/RECORD,,\n",
	)
	const file = "hello-1.0-py3-none-any.whl"
	serve("/packages/"+file, wheel)
	serve("/simple/hello/", fmt.Appendf(nil, `<!DOCTYPE html><a href="%s#sha256=%x">%s</a>`, r.url("files", "/packages/"+file), sha256.Sum256(wheel), file))
}

func (r *registry) serveNPM(t *testing.T, serve func(string, []byte)) {
	archive := tarball(t,
		"package/package.json", `{"name": "hello", "version": "1.0.0", "main": "index.js"}`,
		"package/index.js", "console.log('hello')\n")
	sum := sha512.Sum512(archive)
	index, err := json.Marshal(map[string]any{
		"name":      "hello",
		"dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": map[string]any{
			"name": "hello", "version": "1.0.0", "main": "index.js",
			"dist": map[string]string{
				"tarball":   r.url("npm", "/hello/-/hello-1.0.0.tgz"),
				"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
			},
		}},
	})
	require.NoError(t, err)
	serve("/hello/-/hello-1.0.0.tgz", archive)
	serve("/hello", index)
}

func (r *registry) serveGo(serve func(string, []byte)) {
	const at = "/go/hello.example.com/hello/@v/"
	module := "module hello.example.com/hello\n\ngo 1.20\n"
	serve(at+"list", []byte("v1.0.0\n"))
	serve(at+"v1.0.0.info", []byte(`{"Version":"v1.0.0"}`))
	serve(at+"v1.0.0.mod", []byte(module))
	serve(at+"v1.0.0.zip", zipball(
		"hello.example.com/hello@v1.0.0/go.mod", module,
		"hello.example.com/hello@v1.0.0/main.go", "package main\n\nfunc main() { println(\"hello\") }\n"))
}

func (r *registry) serveAPT(t *testing.T, serve func(string, []byte)) {
	control := "Package: hello-test\nVersion: 1.0\nArchitecture: all\nMaintainer: test <test@example.com>\nDescription: says hello\n"
	deb := debball(
		"debian-binary", []byte("2.0\n"),
		"control.tar.gz", tarball(t, "./control", control),
		"data.tar.gz", tarball(t, "./usr/bin/hello-test", "#!/bin/sh\necho hello\n"))
	serve("/apt/hello-test.deb", deb)
	serve("/apt/Packages", fmt.Appendf(nil, "%sFilename: ./hello-test.deb\nSize: %d\nSHA256: %x\n", control, len(deb), sha256.Sum256(deb)))
}

// gitRepository makes a directory with hello.git, to be served as static files.
func gitRepository(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	work := filepath.Join(dir, "work")
	git := func(args ...string) {
		t.Helper()
		cmd := exec.Command("git", append([]string{"-c", "user.name=t", "-c", "user.email=t@example.com", "-c", "init.defaultBranch=main"}, args...)...)
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null")
		out, err := cmd.CombinedOutput()
		require.NoError(t, err, "%s", out)
	}
	git("init", "-q", work)
	write(t, work, map[string]string{"hello.txt": "hello\n"})
	git("-C", work, "add", ".")
	git("-C", work, "commit", "-qm", "hello")
	git("clone", "-q", "--bare", work, filepath.Join(dir, "hello.git"))
	git("-C", filepath.Join(dir, "hello.git"), "update-server-info")
	return dir
}

// zipball makes a zip archive from pairs of names and contents.
func zipball(files ...string) []byte {
	var b bytes.Buffer
	w := zip.NewWriter(&b)
	for i := 0; i < len(files); i += 2 {
		f, _ := w.Create(files[i]) // writing to memory does not fail
		f.Write([]byte(files[i+1]))
	}
	w.Close()
	return b.Bytes()
}

// tarball makes a compressed tar archive of executable files.
func tarball(t *testing.T, files ...string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	w := tar.NewWriter(z)
	for i := 0; i < len(files); i += 2 {
		require.NoError(t, w.WriteHeader(&tar.Header{Name: files[i], Mode: 0o755, Size: int64(len(files[i+1]))}))
		_, err := w.Write([]byte(files[i+1]))
		require.NoError(t, err)
	}
	require.NoError(t, w.Close())
	require.NoError(t, z.Close())
	return b.Bytes()
}

// debball makes an archive in the format of Debian's packages.
func debball(files ...any) []byte {
	b := bytes.NewBufferString("!<arch>\n")
	for i := 0; i < len(files); i += 2 {
		content := files[i+1].([]byte)
		fmt.Fprintf(b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", files[i], 0, 0, 0, "100644", len(content))
		b.Write(content)
		if len(content)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}
