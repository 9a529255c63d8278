package toolchain

import (
	"context"
	"os/exec"
	"strings"
	"time"
	"unicode"
)

// identityTime is how long git may take to say who the user is.
const identityTime = 2 * time.Second

// GitIdentity returns the user's name and address as git's settings of the user and of
// the system have them for a directory, with what these include. Settings of the
// repository do not count, and of its files only those are read that git needs to know
// where it is. Both are empty if there is no git outside of the owned directories, which
// commands can write. env is the environment of the user. Control characters are left
// out.
func GitIdentity(ctx context.Context, env []string, dir string, owned ...string) (name, email string) {
	f := finder{env: env, home: home(env)}
	for _, dir := range owned {
		f.owned = append(f.owned, resolved(dir))
	}
	git, path := f.program("git")
	if git == "" {
		return "", ""
	}
	given := []string{"PATH=" + path, "GIT_OPTIONAL_LOCKS=0", "GIT_TERMINAL_PROMPT=0"}
	for _, name := range []string{"HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "SystemRoot", "USERPROFILE"} {
		if value := lookup(env, name); value != "" {
			given = append(given, name+"="+value)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, identityTime)
	defer cancel()
	for _, scope := range []string{"--system", "--global"} { // the later one wins
		cmd := exec.CommandContext(ctx, git, "config", scope, "--includes", "--null", "--get-regexp", `^user\.(name|email)$`)
		cmd.Dir, cmd.Env = dir, given
		cmd.WaitDelay = identityTime
		out, _ := cmd.Output() // an error means that there is no such file, or no such setting
		for entry := range strings.SplitSeq(string(out), "\x00") {
			switch key, value, _ := strings.Cut(entry, "\n"); key {
			case "user.name":
				name = shown(value)
			case "user.email":
				email = shown(value)
			}
		}
	}
	return name, email
}

// shown leaves out what would be a new line of a configuration, and what nobody sees.
func shown(value string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(value, "")))
}
