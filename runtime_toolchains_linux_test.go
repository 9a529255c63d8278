package pygent_test

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent"
	"github.com/x/pygent/internal/guest/confine"
)

// toolchains are scripts that work without confinement. Each begins in an empty
// directory and ends by printing "ok".
var toolchains = []struct{ name, program, script string }{
	{"git", "git", `git init -q . && echo a >a && git add a && git commit -qm first && git log --format=%an | grep -qx Included &&
		git clone -q . ../clone && git -C ../clone log --oneline | grep -q first && git -C ../clone status --short --ignored`},
	{"go", "go", `cat >go.mod <<'.' && cat >main.go <<'.' && cat >main_test.go <<'.' && go build -o prog . && ./prog | grep -qx fine && go test . && go install . && "$GOBIN/tool" | grep -qx fine && tool | grep -qx fine
module example.test/tool
go 1.26
.
package main
import "fmt"
func main() { fmt.Println(text()) }
func text() string { return "fine" }
.
package main
import ("os"; "testing")
func TestText(t *testing.T) {
	if text() != "fine" { t.Fatal(text()) }
	if err := os.WriteFile(t.TempDir()+"/f", nil, 0o600); err != nil { t.Fatal(err) }
}
.`},
	{"go get", "go", `cat >go.mod <<'.' && go get golang.org/x/sys@` + sysVersion + ` && go mod download && test -d "$GOMODCACHE/golang.org/x/sys@` + sysVersion + `"
module example.test/get
go 1.26
.`},
	// pip is the machine's own, because installing it into the environment takes most of
	// the time of a venv and makes the same accesses as installing the package does: both
	// run pip, which reads archives, unpacks them below the temporary directory and writes
	// to site-packages and bin. What it wrote there is run as a module and as a program.
	{"venv and pip", "pip3", `mkdir -p src/thing && echo 'def main(): print("fine")' >src/thing/__init__.py && echo 'from thing import main; main()' >src/thing/__main__.py &&
		python3 - <<'.' && python3 -m venv --system-site-packages --without-pip env && env/bin/python -m pip install -q --no-index ./thing-1-py3-none-any.whl && env/bin/python -m thing | grep -qx fine && env/bin/thing | grep -qx fine
import zipfile
w = zipfile.ZipFile("thing-1-py3-none-any.whl", "w")
w.write("src/thing/__main__.py", "thing/__main__.py"); w.write("src/thing/__init__.py", "thing/__init__.py")
w.writestr("thing-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: thing\nVersion: 1\n")
w.writestr("thing-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
w.writestr("thing-1.dist-info/entry_points.txt", "[console_scripts]\nthing = thing:main\n")
w.writestr("thing-1.dist-info/RECORD", "")
w.close()
.`},
	{"multiprocessing", "python3", `cat >m.py <<'.' && python3 m.py
import multiprocessing as m, tempfile
from multiprocessing import shared_memory
def square(n): return n * n
if __name__ == "__main__":
    with m.Pool(2) as pool: assert pool.map(square, [1, 2, 3]) == [1, 4, 9]
    s = shared_memory.SharedMemory(create=True, size=10); s.buf[0] = 1; s.close(); s.unlink()
    with m.Manager() as manager: manager.list([1])
    tempfile.NamedTemporaryFile().write(b"x")
.`},
	// Each start of npm takes long, so tar packs the package, and the installation shows
	// whether npm knows its settings.
	{"npm", "npm", `mkdir -p package && echo '{"name":"dep","version":"1.0.0","main":"i.js"}' >package/package.json && echo 'module.exports = "fine"' >package/i.js &&
		tar -czf dep.tgz package && echo '{"name":"app","version":"1.0.0","scripts":{"go":"node app.js"}}' >package.json && echo 'console.log(require("dep"))' >app.js &&
		{ npm install --no-audit --no-fund ./dep.tgz >log 2>&1 || { cat log; false; }; } && ! grep "Unknown env config" log && npm run --silent go | grep -qx fine`},
	{"cargo", "cargo", `mkdir -p dep/src src && printf '[package]\nname = "dep"\nversion = "1.0.0"\nedition = "2021"\n' >dep/Cargo.toml && echo 'pub fn text() -> &'"'static"' str { "fine" }' >dep/src/lib.rs &&
		printf '[package]\nname = "app"\nversion = "1.0.0"\nedition = "2021"\n[dependencies]\ndep = { path = "dep" }\n' >Cargo.toml && echo 'fn main() { println!("{}", dep::text()); }' >src/main.rs &&
		cargo build --offline -q && ./target/debug/app | grep -qx fine && cargo install --offline -q --path . && app | grep -qx fine`},
	{"gcc", "gcc", `printf '#include <stdio.h>\nint main(void) { puts("fine"); return tmpfile() == NULL; }\n' >a.c && gcc -O1 -o a a.c && ./a | grep -qx fine`},
	{"sqlite", "python3", `python3 -c 'import sqlite3; c = sqlite3.connect("db"); c.execute("pragma journal_mode=wal"); c.execute("create table t(x)"); c.execute("insert into t values(1)"); c.commit(); c.execute("vacuum"); assert c.execute("select x from t").fetchone() == (1,)'`},
	{"a terminal", "script", `script -qec 'test -t 0 && echo is a tty' /dev/null </dev/null | grep -q 'is a tty'`},
	{"java and its temporary files", "javac", quickJava + `cat >A.java <<'.' && javac A.java && java A | grep -qx 'fine true'
class A {
	public static void main(String[] a) throws Exception {
		System.out.println("fine " + java.io.File.createTempFile("abc", "d").exists());
	}
}
.`},
	{"maven", "mvn", quickJava + `echo '<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>a</artifactId><version>1</version></project>' >pom.xml && mvn -o -q validate`},
	{"tmux", "tmux", `tmux new-session -d 'sleep 100' && tmux list-sessions && tmux kill-server`},
	{"temporary files", "sh", `f=$(mktemp) && echo x >"$f" && mkdir d && mv "$f" d/f && ln d/f hard && mv d e && test -s e/f && exec 3<<'.' && cat <&3 >/dev/null && : >/dev/null && : 2>/dev/stderr
.`},
	{"processes", "sh", `sleep 100 & kill $! && ! wait $! && (sleep 0.01; true) && test -r /proc/self/status && ps >/dev/null`},
}

// quickJava makes Java compile little: programs this short end sooner without the best
// code. It keeps the options with which commands get their temporary directory.
const quickJava = `export JAVA_TOOL_OPTIONS="-XX:TieredStopAtLevel=1 -XX:+UseSerialGC $JAVA_TOOL_OPTIONS"; `

// sysVersion is the version of a module that the tests depend on, so that it is
// there.
const sysVersion = "v0.49.0"

// requireTools names an environment variable. Unless it is set, tests of tools
// that this machine lacks are skipped. scripts/tools.sh installs all tools.
const requireTools = "PYGENT_TEST_REQUIRE_TOOLS"

// TestToolchainsWorkWhereTheyAreConfined makes and builds a project with the
// machine's tools, at every level of protection, as root and as an ordinary
// user.
func TestToolchainsWorkWhereTheyAreConfined(t *testing.T) {
	if testing.Short() {
		t.Skip("builds projects in seven languages, four times")
	}
	if os.Geteuid() != 0 {
		testToolchains(t)
		return
	}
	t.Run("root", testToolchains)
	t.Run("user", func(t *testing.T) {
		runAs(t, stranger, "GOMODCACHE="+publicModules(t), "XDG_CACHE_HOME="+cacheFor(t, stranger), "GOSUMDB=off", requireTools+"="+os.Getenv(requireTools))
	})
}

func testToolchains(t *testing.T) {
	if cache, err := os.UserCacheDir(); err == nil {
		t.Setenv("XDG_CACHE_HOME", cache) // where Go's standard library is built only once
	}
	if home, err := os.UserHomeDir(); err == nil {
		// The tools belong to the user, and so do the variables that lead to
		// them. The user's configuration of git is not used.
		t.Setenv("RUSTUP_HOME", or(os.Getenv("RUSTUP_HOME"), filepath.Join(home, ".rustup")))
		t.Setenv("GOMODCACHE", or(os.Getenv("GOMODCACHE"), filepath.Join(home, "go", "pkg", "mod")))
	}
	home := canaryHome(t)
	require.NoError(t, os.WriteFile(filepath.Join(home, ".gitconfig"), []byte("[include]\n\tpath = ~/dotfiles/git\n"), 0o600))
	require.NoError(t, os.Mkdir(filepath.Join(home, "dotfiles"), 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "dotfiles", "git"), []byte("[user]\n\tname = Included\n\temail = i@example.test\n"), 0o600))
	t.Setenv("GOFLAGS", "-buildvcs=false")
	t.Setenv("GOTOOLCHAIN", "local")
	before := tree(t, home)
	eachLevel(t, func(t *testing.T, level confine.Level) {
		r := newTestRuntime(t, pygent.NewLocalRuntime, atLevel(level), pygent.WithLocalProtection(pygent.ProtectionRequired))
		for i, tool := range toolchains {
			t.Run(tool.name, func(t *testing.T) {
				t.Parallel()
				if _, err := exec.LookPath(tool.program); err != nil {
					require.NotEqual(t, "1", os.Getenv(requireTools), "scripts/tools.sh installs it for every user: %v", err)
					t.Skip(err)
				}
				dir := filepath.Join("work", string(rune('a'+i)), "dir")
				require.NoError(t, r.WriteFile(t.Context(), filepath.Join(dir, "script"), []byte(tool.script)))
				res := bash(t, r, "script=$(cat script); rm script; eval \"$script\" && echo ok", pygent.BashDir(dir), pygent.BashTimeout(5*time.Minute))
				require.Equal(t, 0, res.ExitCode, "%s", res)
				require.Contains(t, res.Output, "ok\n")
			})
		}
	})
	require.Equal(t, before, tree(t, home))
}

// publicModules returns a cache of Go modules that every user can read, with
// the module that the toolchains use.
func publicModules(t *testing.T) string {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", "golang.org/x/sys@"+sysVersion).Output()
	require.NoError(t, err, "%s", out)
	var module struct{ Info string }
	require.NoError(t, json.Unmarshal(out, &module))
	dir, err := os.MkdirTemp("/home", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	require.NoError(t, os.Chmod(dir, 0o755))
	to := filepath.Join(dir, "cache", "download", "golang.org", "x", "sys", "@v")
	require.NoError(t, os.CopyFS(to, os.DirFS(filepath.Dir(module.Info))))
	return dir
}

// cacheFor gives a user what the go command has built of its standard library for
// this one, which takes most of the test's time.
func cacheFor(t *testing.T, uid int) string {
	t.Helper()
	cache, err := os.UserCacheDir()
	require.NoError(t, err)
	dir, err := os.MkdirTemp("/home", "pygent-test-")
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, os.RemoveAll(dir)) })
	const built = "pygent/local/go-build"
	require.NoError(t, os.MkdirAll(filepath.Join(dir, built), 0o700))
	require.NoError(t, os.CopyFS(filepath.Join(dir, built), os.DirFS(filepath.Join(cache, built))))
	require.NoError(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		return errors.Join(err, os.Lchown(path, uid, uid))
	}))
	return dir
}

func or(value, otherwise string) string {
	if value != "" {
		return value
	}
	return otherwise
}
