package toolchain

import (
	"cmp"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Tools is what a user's tools need in order to work when confined.
type Tools struct {
	Read []string // paths that they must be able to read and execute
	Env  []string // settings that must be added to the environment
}

// Find finds the tools that the variables in env lead to. What the tools store
// for later, such as downloads, goes to the directory cache. The user's own
// caches and programs can only be read, so that no command can plant in them
// something that the user runs later. Settings in the owned directories are
// ignored, because commands can write them.
func Find(env []string, cache string, owned ...string) Tools {
	f := finder{env: env, home: home(env)}
	if f.home != "" {
		f.homes = []string{f.home, resolved(f.home)}
	}
	for _, dir := range owned {
		f.owned = append(f.owned, resolved(dir))
	}
	f.searchPath()
	f.roots()
	f.certificates()
	f.underHome()
	f.git()
	f.settings(cache)
	f.goModules(cache)
	return f.tools
}

// home returns the user's home directory, or "" if there is none.
func home(env []string) string {
	if dir := lookup(env, "HOME"); filepath.IsAbs(dir) {
		return filepath.Clean(dir)
	}
	return ""
}

// resolved returns a path with all symbolic links resolved, or "" if it does
// not exist.
func resolved(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

type finder struct {
	env   []string
	home  string
	homes []string // the home directory, as it is named and without symbolic links
	owned []string // directories that commands own, without symbolic links
	tools Tools
}

// read adds a path, unless it is the home directory or a parent of it.
func (f *finder) read(path string) {
	if !filepath.IsAbs(path) {
		return
	}
	path = filepath.Clean(path)
	if f.holdsHome(path) || f.holdsHome(resolved(path)) || slices.Contains(f.tools.Read, path) {
		return
	}
	f.tools.Read = append(f.tools.Read, path)
}

func (f *finder) holdsHome(path string) bool {
	return path == "/" || slices.ContainsFunc(f.homes, func(home string) bool {
		return path == home || strings.HasPrefix(home, path+"/")
	})
}

func (f *finder) set(name, value string) {
	f.tools.Env = append(f.tools.Env, name+"="+value)
}

// maxLinks is the largest number of symbolic links that are followed for one
// path.
const maxLinks = 40

// trusts reports whether a file exists and commands can neither write it nor
// choose it: neither the file nor any symbolic link on its path is in a
// directory that they own.
func (f *finder) trusts(file string) bool {
	for range maxLinks {
		if !f.foreign(file) {
			return false
		}
		next, err := nextLink(file)
		if err != nil {
			return false
		}
		if next == file {
			return true
		}
		file = next
	}
	return false
}

// foreign reports whether a path is outside of all directories that commands
// own.
func (f *finder) foreign(path string) bool {
	return !slices.ContainsFunc(f.owned, func(dir string) bool {
		rel, err := filepath.Rel(dir, path)
		return err != nil || filepath.IsLocal(rel)
	})
}

// nextLink returns an absolute path in which the first symbolic link is
// resolved.
func nextLink(path string) (string, error) {
	path = filepath.Clean(path)
	for at := 1; at <= len(path); at++ {
		if at < len(path) && path[at] != filepath.Separator {
			continue
		}
		info, err := os.Lstat(path[:at])
		if err != nil {
			return "", err
		}
		if info.Mode()&os.ModeSymlink == 0 {
			continue
		}
		target, err := os.Readlink(path[:at])
		if err != nil {
			return "", err
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path[:at]), target)
		}
		return filepath.Join(target, path[at:]), nil
	}
	return path, nil
}

// searchPath adds the directories in PATH, and the directories with libraries
// beside them.
func (f *finder) searchPath() {
	for _, dir := range filepath.SplitList(lookup(f.env, "PATH")) {
		f.read(dir)
		base := filepath.Base(dir)
		if parent := filepath.Dir(dir); base == "bin" || base == "sbin" {
			for _, name := range []string{"lib", "lib64", "libexec", "include"} {
				f.read(filepath.Join(parent, name))
			}
		}
	}
}

// roots adds the directories that environment variables name.
func (f *finder) roots() {
	for name := range strings.FieldsSeq(`
		PYENV_ROOT RUSTUP_HOME NVM_DIR N_PREFIX VOLTA_HOME FNM_DIR PNPM_HOME DENO_INSTALL BUN_INSTALL NODENV_ROOT
		CONDA_PREFIX VIRTUAL_ENV JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME KOTLIN_HOME SCALA_HOME SDKMAN_DIR
		ANDROID_HOME ANDROID_SDK_ROOT ANDROID_NDK_HOME FLUTTER_ROOT DOTNET_ROOT GOROOT RBENV_ROOT GOENV_ROOT
		GEM_HOME ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR HOMEBREW_PREFIX OPAM_SWITCH_PREFIX CUDA_HOME CUDA_PATH R_HOME`) {
		f.read(lookup(f.env, name))
	}
	for _, name := range []string{"PYTHONPATH", "NODE_PATH", "LD_LIBRARY_PATH", "PKG_CONFIG_PATH", "GEM_PATH", "PERL5LIB"} {
		for _, dir := range filepath.SplitList(lookup(f.env, name)) {
			f.read(dir)
		}
	}
	f.read(lookup(f.env, "PIP_FIND_LINKS"))
}

// certificates adds the files with the certificates of authorities.
func (f *finder) certificates() {
	for name := range strings.FieldsSeq(`SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE
		NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO GIT_SSL_CAPATH PIP_CERT NIX_SSL_CERT_FILE CARGO_HTTP_CAINFO`) {
		f.read(lookup(f.env, name))
	}
}

// underHome adds the directories in the home where tools are installed by
// default.
func (f *finder) underHome() {
	if f.home == "" {
		return
	}
	for name := range strings.FieldsSeq(`
		.local/bin .local/lib .local/share/pipx .local/share/uv .local/share/mise .local/share/fnm .local/share/pnpm
		.local/share/virtualenv .local/pipx .pyenv .rustup .nvm .volta .bun/bin .deno/bin .sdkman .rbenv .nodenv .asdf
		.juliaup .ghcup/bin .ghcup/ghc .opam .elan miniconda3 anaconda3 miniforge3 mambaforge .jenv .jdks sdk
		.cargo/bin .cargo/env .cargo/config .cargo/config.toml go/bin .nix-profile .terminfo`) {
		f.read(filepath.Join(f.home, name))
	}
}

// settings makes tools store their data in the cache directory.
func (f *finder) settings(cache string) {
	in := func(elem ...string) string { return filepath.Join(append([]string{cache}, elem...)...) }
	f.set("XDG_CACHE_HOME", cache)
	f.set("CARGO_HOME", in("cargo"))
	f.set("npm_config_cache", in("npm"))
	f.set("npm_config_userconfig", in("npmrc"))
	f.set("PNPM_HOME", in("pnpm"))
	f.set("YARN_GLOBAL_FOLDER", in("yarn"))
	if !strings.ContainsAny(cache, " \t\n") { // there is no way to quote white space for mvn
		f.set("MAVEN_ARGS", "-Dmaven.repo.local="+in("m2"))
		f.set("MAVEN_OPTS", strings.TrimSpace(lookup(f.env, "MAVEN_OPTS")+" -Dmaven.repo.local="+in("m2"))) // for versions before 3.9
	}
	f.set("GRADLE_USER_HOME", in("gradle"))
	f.set("NUGET_PACKAGES", in("nuget"))
	f.set("DOTNET_CLI_HOME", in("dotnet"))
	f.set("BUNDLE_USER_HOME", in("bundle"))
	f.set("GOPATH", in("go"))
	f.set("GOMODCACHE", in("go", "pkg", "mod"))
	f.set("GOCACHE", in("go-build"))
	f.set("GOBIN", in("go", "bin"))
	path := strings.TrimSuffix(lookup(f.env, "PATH"), string(filepath.ListSeparator))
	f.set("PATH", strings.Join([]string{path, in("go", "bin"), in("cargo", "bin")}, string(filepath.ListSeparator)))
}

// Temporary returns settings for tools that ignore TMPDIR, so that their
// temporary files are in dir. It is for machines where they cannot be in /tmp.
func Temporary(env []string, dir string) []string {
	java := `-Djava.io.tmpdir="` + dir + `"`
	if given := lookup(env, "JAVA_TOOL_OPTIONS"); given != "" {
		java = given + " " + java
	}
	return []string{"TMUX_TMPDIR=" + dir, "JAVA_TOOL_OPTIONS=" + java}
}

// goModules makes Go take modules from the user's own cache if they are in it.
func (f *finder) goModules(cache string) {
	variables := f.goEnv()
	root, _, _ := strings.Cut(variables["GOPATH"], string(filepath.ListSeparator))
	if root == "" && f.home != "" {
		root = filepath.Join(f.home, "go")
	}
	mods := cmp.Or(variables["GOMODCACHE"], filepath.Join(root, "pkg", "mod"))
	downloads := filepath.Join(mods, "cache", "download")
	if info, err := os.Stat(downloads); err != nil || !info.IsDir() || !filepath.IsAbs(downloads) {
		return
	}
	f.read(downloads)
	rest := cmp.Or(variables["GOPROXY"], "https://proxy.golang.org,direct")
	if variables["GOPRIVATE"] != "" || variables["GONOPROXY"] != "" {
		// The cache may also have private modules. Modules that it lacks must
		// then be requested only from their origin.
		rest = "direct"
		f.set("GONOPROXY", "none")
	}
	proxy := url.URL{Scheme: "file", Path: downloads}
	f.set("GOPROXY", proxy.String()+","+rest)
}

// goEnv returns Go's settings: the environment variables, and those set by "go
// env -w".
func (f *finder) goEnv() map[string]string {
	settings := make(map[string]string)
	path := lookup(f.env, "GOENV")
	if config := f.configHome(); path == "" && config != "" {
		path = filepath.Join(config, "go", "env")
	}
	if f.trusts(path) { // checked before it is opened, because it could be a pipe
		secret := false
		data, _ := os.ReadFile(path)
		for line := range strings.Lines(string(data)) {
			name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), "=")
			if credentials.MatchString(value) {
				secret = true
				continue
			}
			settings[name] = value
		}
		if !secret {
			f.read(path)
		}
	}
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOPROXY", "GOPRIVATE", "GONOPROXY"} {
		if value := lookup(f.env, name); value != "" {
			settings[name] = value
		}
	}
	return settings
}

// configHome returns the directory of the settings of programs, or "" if there
// is none.
func (f *finder) configHome() string {
	if dir := lookup(f.env, "XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return dir
	}
	if f.home == "" {
		return ""
	}
	return filepath.Join(f.home, ".config")
}
