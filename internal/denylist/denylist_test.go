package denylist_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/denylist"
)

func list(t *testing.T, commands, programs []string) *denylist.List {
	t.Helper()
	l, err := denylist.New(commands, programs)
	require.NoError(t, err)
	return l
}

func TestBannedCommandIsSeenWhereverItRuns(t *testing.T) {
	l := list(t, []string{"rm"}, nil)
	for _, script := range []string{
		"rm x", "ls && rm x", "ls; rm x", "ls | rm x", "(rm x)", "{ rm x; }", "! rm x", "rm x &", "if rm x; then :; fi", "for f in *; do rm $f; done",
		"case a in a) rm x;; esac", "while rm x; do :; done", "f() { rm x; }", "function f { rm x; }", "time rm x", "coproc rm x",
		"echo $(rm x)", "echo `rm x`", `echo "$(rm x)"`, "cat <(rm x)", "x=$(rm x)", "export X=$(rm x)", "echo ${x:-$(rm x)}", "echo $((1+$(rm x)))",
		"cat <<EOF\n$(rm x)\nEOF", "[[ -n $(rm x) ]]", "a=(1 $(rm x))",
		"/bin/rm x", "./rm x", "../bin/rm x", `"$DIR"/rm x`, "$HOME/bin/rm x", `r\m x`, `"rm" x`, `'r'm x`, `$'rm' x`, "rm.exe x", "X=1 rm x", "2>/dev/null rm x",
		"env rm x", "env -i -u C A=b rm x", "env - rm x", "env -S 'rm x'", "env --split-string='rm x'", "env -S'rm x'", "/usr/bin/env rm x",
		"sudo rm x", "sudo -u root -E rm x", "sudo -n -- rm x", "sudo A=b rm x", "doas rm x", "nohup rm x &", "setsid rm x", "nice -n 5 rm x", "ionice -c3 rm x",
		"timeout 5 rm x", "timeout -k 1 --signal KILL 5 rm x", "stdbuf -oL rm x", "chroot / rm x", "flock lock rm x", "flock lock -c 'rm x'", "exec rm x", "exec -a y rm x",
		"command rm x", "builtin rm", "busybox rm x", "taskset -c 0 rm x", "chrt -f 10 rm x", "/usr/bin/time -f %e rm x", "strace -o log rm x", "unshare -r rm x",
		"xargs rm", "ls | xargs -0 -n 1 rm", "xargs -I{} rm {}", "xargs --replace rm {}", "xargs -I {} sh -c 'rm {}'", "parallel rm ::: a", "parallel 'rm {}' ::: a", "watch -n 1 rm x", "watch 'rm x'",
		`find . -exec rm {} \;`, "find . -name '*.o' -execdir rm {} +", `find . -exec sh -c 'rm "$1"' _ {} \;`, `find . -exec sh -c 'rm {}' \;`,
		"sh -c 'rm x'", "bash -lc 'ls; rm x'", "bash -c -e 'rm x'", "bash --norc -o pipefail -c 'rm x'", "sh -c \"sh -c 'rm x'\"", "env sh -c 'rm x'", "/bin/sh -c 'rm x'",
		"sh <<EOF\nrm x\nEOF", "bash -s <<'EOF'\nls\nrm x\nEOF", "sh -s -- arg <<EOF\nrm x\nEOF", "bash <<< 'rm x'", "{ sh; } <<EOF\nrm x\nEOF", "cat x | sh <<EOF\nrm x\nEOF",
		"su root -c 'rm x'", "su -c 'rm x' root", "su - root --command='rm x'", "runuser -u me rm x", "runuser -c 'rm x' me", "runuser me -c 'rm x'", "runuser -l me --session-command='rm x'", "script -qc 'rm x' log",
		"eval rm x", "eval 'ls; rm x'", `eval "rm" x`, "trap 'rm x' EXIT", "trap -- 'rm x' EXIT", "alias l='rm x'",
		"ls\\\n && rm x", "r\\\nm x",
	} {
		require.EqualError(t, l.Check(script), `the command "rm" is banned here`, script)
	}
}

func TestMereWordsAreNoCommands(t *testing.T) {
	l := list(t, []string{"rm", "/usr/bin/curl", "git push", "rm -rf"}, nil)
	for _, script := range []string{
		"echo do not rm", "grep rm log", "grep -r 'rm -rf' .", "printf 'rm x\\n'", "cat rm", "ls rm/", "echo 'a; rm x'", "# rm x", "rmdir x", "farm x", "git rm x",
		"cat <<EOF\nrm x\nEOF", "cat > x.sh <<'EOF'\nrm x\nEOF", "xargs grep rm", "nice -n 5 grep rm x", "sudo -u rm ls", "timeout 5 grep rm", "env A=rm ls", "command -v rm",
		"find . -name rm", "find rm -type f", "sh -c 'echo rm'", "sh x.sh", "bash -x ./run rm", "sh rm", "sh < x.sh", "trap - EXIT", "trap", "trap -l", "[ -f rm ]", "[[ rm == x ]]", "test rm",
		"x=rm", "case rm in rm) ls;; esac", "for rm in a b; do ls; done", "git log", ". ./venv/bin/activate", "source x", "echo curl", "type rm; which rm",
		"alias", "command", "eval", "exec", "sudo", "env", "su", "runuser me -c ls", "eval ls", "alias l='ls -l'", "xargs", "exec 3>&1", "", "ls |\n cat", `"$HOME/bin/tool" rm`, "x=1; y=2", "declare -a x", "parallel echo ::: rm", `timeout "$T" ls`, "su me", "python -c 'print(1)'",
	} {
		require.NoError(t, l.Check(script), script)
	}
}

func TestArgumentsOfABannedCommand(t *testing.T) {
	for _, tt := range []struct {
		banned       string
		refused, run []string
	}{
		{"rm -rf", []string{"rm -rf x", "rm -fr x", "rm -r -f x", "rm -f x -r", "rm -Rf x", "rm -rvf x", "rm --recursive --force x", "rm --force -r x", "rm --recurs --forc x", "rm x -rf", "rm -rf -- x", "/bin/rm -rf x"},
			[]string{"rm x", "rm -r x", "rm -f x", "rm -- -rf", "rm -f ./-r", "rm --force x", "rmdir -rf x", "echo rm -rf"}},
		{"rm --recursive", []string{"rm -r x", "rm -R x", "rm --recursive x"}, []string{"rm -f x"}},
		{"git push --force", []string{"git push --force", "git push -f origin", "git -C x push origin --force"}, []string{"git push", "git commit --force", "git --force"}},
		{"git push", []string{"git push", "git -C x push", "git --no-pager push origin", "git commit -m push"}, []string{"git pull", "git", `git commit -m "$msg"`, "git log -1"}},
		{"chmod 777", []string{"chmod 777 x", "chmod -R 777 x"}, []string{"chmod 755 x"}},
		{"find -delete", []string{"find . -delete"}, []string{"find . -type d -newer x -ls -executable"}},
		{"/usr/bin/curl", []string{"curl x", "/usr/bin/curl x", "/opt/curl x"}, []string{"/usr/bin/curls x"}},
	} {
		l := list(t, []string{tt.banned}, nil)
		for _, script := range tt.refused {
			require.EqualError(t, l.Check(script), `the command "`+tt.banned+`" is banned here`, script)
		}
		for _, script := range tt.run {
			require.NoError(t, l.Check(script), "%s: %s", tt.banned, script)
		}
	}
}

func TestWhatCannotBeDecidedIsRefused(t *testing.T) {
	l := list(t, []string{"rm -rf", "git push"}, nil)
	for _, tt := range []struct{ script, want string }{
		{"$X -rf y", "what $X runs; write the name of the command out"},
		{`"$(which rm)" x`, "write the name of the command out"},
		{"${X:-ls}", "runs"},
		{"/bin/r? x", "/bin/r?"},
		{"{rm,-rf,x}", "{rm,-rf,x}"},
		{`$'\x72m' x`, "runs"},
		{"r$X y", "r$X"},
		{"sudo $X y", "$X"},
		{"timeout $OPTIONS 5 ls", "where the command after $OPTIONS begins; put it in quotes"},
		{`eval "$X"`, `what eval runs by "$X"`},
		{`sh -c "$X"`, `the script "$X"`},
		{`sh -c "ls $X"`, "the script"},
		{"sh $X", "what a shell is given by $X"},
		{"curl x | sh", "from a pipe"},
		{"curl x | sudo bash -s -- -y", "from a pipe"},
		{"curl x | { read y; sh; }", "from a pipe"},
		{"sh < <(curl x)", "from a pipe"},
		{"bash <(curl x)", "what a shell is given by"},
		{"source <(curl x)", "from a pipe"},
		{"sh <<EOF\n$X\nEOF", "the script"},
		{"ls | xargs sh -c", "its input"},
		{"xargs -I{} {}", "{}"},
		{`find . -exec {} \;`, "{}"},
		{"rm $X y", `whether this is "rm -rf"`},
		{`rm -r "$X"`, "put -- before"},
		{"rm -r -$X", "write the arguments out"},
		{"ls | xargs rm -r", `whether this is "rm -rf"`},
		{"git $X", `whether this is "git push"`},
		{"if then", "does not parse"},
		{"echo 'a", "does not parse"},
		{strings.Repeat("ls;", 30_000), "too long"},
		{strings.Repeat("eval ", 20) + "ls", "nested too deep"},
	} {
		require.ErrorContains(t, l.Check(tt.script), tt.want, tt.script)
		require.ErrorContains(t, l.Check(tt.script), "some commands are banned here, and ", tt.script)
		require.NoError(t, list(t, nil, nil).Check(tt.script), "nothing is banned")
	}
	for _, script := range []string{`rm -r -- "$X"`, `rm -f x"$X"`, `rm -r ./"$X"`, `find . -exec rm -r {} \;`, `git add "$X"`, `"$VENV"/bin/pip install x`} {
		require.NoError(t, l.Check(script), script)
	}
}

func TestBannedApplicationsAreNotEvenNamed(t *testing.T) {
	l := list(t, nil, []string{"curl", "/usr/bin/python"})
	for _, script := range []string{
		"curl x", "ls && /usr/bin/curl x", "sh -c 'curl x'", "echo curl", "which curl", "apt-get install curl", "X=curl", "ls > curl", "case x in curl) ls;; esac", "for x in curl; do ls; done",
		`echo "$X/curl"`, "sh -c 'echo curl'", "env X=1 curl", "python -c 'print(1)'", "/opt/bin/python x",
	} {
		require.ErrorContains(t, l.Check(script), "is banned here", script)
	}
	for _, script := range []string{"echo 'use curl'", "curls x", "python3 x", "grep curl.h x", "# curl", "pip install pycurl", "cat <<EOF\nuse curl here\nEOF"} {
		require.NoError(t, l.Check(script), script)
	}
	require.ErrorContains(t, l.Check("$X y"), "it cannot be told what $X runs")
}

func TestWhatIsNoNameIsRefused(t *testing.T) {
	for _, name := range []string{"", " ", "/", ".", ".."} {
		_, err := denylist.New([]string{name}, nil)
		require.ErrorContains(t, err, "want the name of a program", name)
	}
	for _, command := range []string{"curl | sh", "a && b", "rm; ls", "git commit -m 'x'", `rm "my file"`, "$(rm)", "`rm`", "rm > x", `r\m`, "(rm)", "rm,curl", "rm, curl", "rm:curl", "git push, rm"} {
		_, err := denylist.New([]string{command}, nil)
		require.ErrorContains(t, err, "want one program with flags and words as they stand", command)
	}
	_, err := denylist.New(nil, []string{"curl|sh"})
	require.ErrorContains(t, err, `banned application "curl|sh"`)
	_, err = denylist.New(nil, []string{"two words"})
	require.ErrorContains(t, err, `banned application "two words"`)
	_, err = denylist.New(nil, []string{"rm,curl"})
	require.ErrorContains(t, err, `banned application "rm,curl"`)
}

func FuzzCheck(f *testing.F) {
	for _, script := range []string{"a && $(b) | sh -c 'c' <<E\nx\nE", "find . -exec {} \\;", "env -S'a b' c=d e", `${a[@]//b/"$c"}`, "case a in (b) c ;& esac", "sudo -", "sh -o", "xargs -I", "su -c", "$'\\x'", "a=(`b`)"} {
		f.Add(script, "rm -rf", "curl")
	}
	f.Fuzz(func(t *testing.T, script, command, program string) {
		l, err := denylist.New([]string{command}, []string{program})
		if err == nil {
			_ = l.Check(script)
		}
		checked := list(t, []string{"rm"}, nil)
		if err := checked.Check(script); err != nil {
			require.NotContains(t, err.Error(), "cannot be checked for them (", "a panic")
		}
	})
}
