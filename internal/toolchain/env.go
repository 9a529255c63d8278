// Package toolchain determines what the tools of a developer's machine need in
// order to work when they are confined: environment variables, directories
// besides those of the system, and settings. The settings keep what the tools
// store for later apart from what the user runs.
package toolchain

import (
	"regexp"
	"runtime"
	"slices"
	"strings"
)

// passed are the variables that commands may see. All others are withheld,
// because they may be credentials, whose names follow no rule.
var passed = names(`
	PATH HOME USER LOGNAME SHELL LANG LANGUAGE TZ TERM COLORTERM TMPDIR MANPATH INFOPATH CI SOURCE_DATE_EPOCH
	XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME XDG_DATA_DIRS XDG_CONFIG_DIRS WSL_DISTRO_NAME

	HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
	SSL_CERT_FILE SSL_CERT_DIR CURL_CA_BUNDLE REQUESTS_CA_BUNDLE NODE_EXTRA_CA_CERTS GIT_SSL_CAINFO
	GIT_SSL_CAPATH PIP_CERT NIX_SSL_CERT_FILE CARGO_HTTP_CAINFO

	CC CXX CPP LD AR AS NM RANLIB STRIP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS LIBS MAKEFLAGS
	CPATH C_INCLUDE_PATH CPLUS_INCLUDE_PATH LIBRARY_PATH LD_LIBRARY_PATH DYLD_LIBRARY_PATH
	PKG_CONFIG PKG_CONFIG_PATH PKG_CONFIG_LIBDIR CMAKE_PREFIX_PATH CMAKE_GENERATOR ACLOCAL_PATH SDKROOT
	CUDA_HOME CUDA_PATH CUDA_VISIBLE_DEVICES OMP_NUM_THREADS

	GOROOT GOPATH GOBIN GOCACHE GOMODCACHE GOENV GOFLAGS GOPROXY GOPRIVATE GONOPROXY GONOSUMDB GOSUMDB GOINSECURE
	GOTOOLCHAIN GOOS GOARCH GOARM GOARM64 GOAMD64 GO386 GOEXPERIMENT GOWORK GO111MODULE GODEBUG GOMAXPROCS GOGC
	GOMEMLIMIT CGO_ENABLED CGO_CFLAGS CGO_CPPFLAGS CGO_CXXFLAGS CGO_LDFLAGS

	CARGO_HOME CARGO_TARGET_DIR CARGO_BUILD_JOBS CARGO_BUILD_TARGET CARGO_NET_OFFLINE CARGO_INCREMENTAL
	RUSTUP_HOME RUSTUP_TOOLCHAIN RUSTUP_AUTO_INSTALL RUSTFLAGS RUSTDOCFLAGS RUST_BACKTRACE RUST_LOG

	PYTHONPATH PYTHONHOME PYTHONUNBUFFERED PYTHONDONTWRITEBYTECODE PYTHONIOENCODING PYTHONUTF8 PYTHONHASHSEED
	PYTHONWARNINGS VIRTUAL_ENV CONDA_PREFIX CONDA_DEFAULT_ENV CONDA_EXE CONDA_PYTHON_EXE CONDA_SHLVL
	PYENV_ROOT PYENV_VERSION PIP_INDEX_URL PIP_EXTRA_INDEX_URL PIP_FIND_LINKS PIP_NO_INDEX PIP_DEFAULT_TIMEOUT
	PIP_DISABLE_PIP_VERSION_CHECK PIP_REQUIRE_VIRTUALENV UV_INDEX_URL UV_PYTHON UV_OFFLINE UV_LINK_MODE

	NODE_PATH NODE_ENV NODE_OPTIONS NVM_DIR NVM_BIN NVM_INC N_PREFIX VOLTA_HOME FNM_DIR FNM_MULTISHELL_PATH
	PNPM_HOME COREPACK_HOME DENO_INSTALL DENO_DIR BUN_INSTALL NPM_CONFIG_REGISTRY NPM_CONFIG_PREFIX

	JAVA_HOME JDK_HOME M2_HOME MAVEN_HOME GRADLE_HOME SDKMAN_DIR KOTLIN_HOME SCALA_HOME ANDROID_HOME
	ANDROID_SDK_ROOT ANDROID_NDK_HOME FLUTTER_ROOT DOTNET_ROOT
	GEM_HOME GEM_PATH RUBYLIB RBENV_ROOT RBENV_VERSION NODENV_ROOT GOENV_ROOT PERL5LIB PERL_LOCAL_LIB_ROOT
	R_HOME R_LIBS R_LIBS_USER JULIA_DEPOT_PATH OPAM_SWITCH_PREFIX ASDF_DIR ASDF_DATA_DIR MISE_DATA_DIR
	HOMEBREW_PREFIX HOMEBREW_CELLAR HOMEBREW_REPOSITORY NIX_PATH NIX_PROFILES GUIX_PROFILE
`)

// passedOnWindows are further variables without which programs on Windows do
// not work.
var passedOnWindows = names(`
	ALLUSERSPROFILE APPDATA COMMONPROGRAMFILES COMMONPROGRAMFILES(X86) COMMONPROGRAMW6432 COMPUTERNAME COMSPEC
	DRIVERDATA HOMEDRIVE HOMEPATH LOCALAPPDATA MSYSTEM NUMBER_OF_PROCESSORS OS PATHEXT PROCESSOR_ARCHITECTURE
	PROCESSOR_IDENTIFIER PROCESSOR_LEVEL PROCESSOR_REVISION PROGRAMDATA PROGRAMFILES PROGRAMFILES(X86) PROGRAMW6432
	PSMODULEPATH PUBLIC SYSTEMDRIVE SYSTEMROOT TEMP TMP USERDOMAIN USERNAME USERPROFILE WINDIR
	INCLUDE LIB LIBPATH VSINSTALLDIR VCINSTALLDIR VCTOOLSINSTALLDIR WINDOWSSDKDIR WINDOWSSDKVERSION UCRTVERSION
`)

func names(list string) map[string]bool {
	set := make(map[string]bool)
	for name := range strings.FieldsSeq(list) {
		set[name] = true
	}
	return set
}

// credentials matches the user part of a URL. It contains a password, or may be
// a token itself.
var credentials = regexp.MustCompile(`://[^/\s@]*@`)

// proxies are the variables whose addresses may lack a scheme.
var proxies = names(`HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY`)

// Inherited returns the variables of env that commands may see: those that
// tools need, and those that the user names. A variable that tools need is left
// out if a URL in its value has credentials.
func Inherited(env, named []string) []string {
	return slices.DeleteFunc(slices.Clone(env), func(entry string) bool {
		name, value, _ := strings.Cut(entry, "=")
		if slices.Contains(named, name) {
			return false
		}
		name = strings.ToUpper(name)
		return !known(name) || credentials.MatchString(value) || proxies[name] && strings.Contains(value, "@")
	})
}

func known(name string) bool {
	return passed[name] || strings.HasPrefix(name, "LC_") ||
		runtime.GOOS == "windows" && (passedOnWindows[name] || strings.HasPrefix(name, "=")) // "=C:" has the current directory of a drive
}

// lookup returns the value of a variable, or "".
func lookup(env []string, name string) string {
	for i := len(env) - 1; i >= 0; i-- {
		if value, ok := strings.CutPrefix(env[i], name+"="); ok {
			return value
		}
	}
	return ""
}
