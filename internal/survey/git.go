package survey

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MaxHead is how many bytes of .git/HEAD are worth reading.
const MaxHead = 300

var (
	branchName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._/+@-]{0,99}$`)
	commitName = regexp.MustCompile(`^[0-9a-f]{40,64}$`)
)

// Branch describes what a repository's HEAD names: "on branch main", or "at
// commit 1a2b3c4d". It is empty for anything else.
func Branch(head string) string {
	head = strings.TrimSpace(head)
	if name, ok := strings.CutPrefix(head, "ref: refs/heads/"); ok && branchName.MatchString(name) {
		return "on branch " + name
	}
	if commitName.MatchString(head) {
		return "at commit " + head[:8]
	}
	return ""
}

// StatusScript asks git how many files of a repository have changed. git gets a
// repository of its own that has the files, index, references and objects of the
// one in the working directory, but not its hooks, and of its configuration only
// what says how files are compared: the rest can name programs, and nobody has
// decided yet that this one's may run.
const StatusScript = begin + `command -v git >/dev/null && d=$(mktemp -d) || exit 1
trap 'rm -rf "$d"' EXIT
g=$PWD/.git
mkdir "$d/info" && cp "$g/HEAD" "$d/HEAD" && ln -s "$g/refs" "$d/refs" || exit 1
[ ! -f "$g/packed-refs" ] || ln -s "$g/packed-refs" "$d/packed-refs"
[ ! -f "$g/info/exclude" ] || ln -s "$g/info/exclude" "$d/info/exclude"
printf '[core]\nrepositoryformatversion = 1\nbare = false\n' >"$d/config" || exit 1
unset GIT_COMMON_DIR GIT_NAMESPACE GIT_CONFIG_COUNT GIT_CONFIG_PARAMETERS
export GIT_DIR="$d" GIT_WORK_TREE="$PWD" GIT_INDEX_FILE="$g/index" GIT_OBJECT_DIRECTORY="$g/objects"
export GIT_CONFIG_GLOBAL=/dev/null GIT_CONFIG_NOSYSTEM=1 GIT_ATTR_NOSYSTEM=1 GIT_OPTIONAL_LOCKS=0
git config --file "$g/config" --get-regexp '^(core\.(filemode|symlinks|ignorecase|precomposeunicode|autocrlf|eol)|extensions\.objectformat)$' 2>/dev/null |
while read -r k v; do
case $v in true|false|input|lf|crlf|native|sha256) printf '[%s]\n%s = %s\n' "${k%.*}" "${k#*.}" "$v";; esac
done >"$d/known"
cat "$d/known" >>"$d/config"
git status --porcelain --ignore-submodules=all >"$d/status" 2>/dev/null || exit 1
wc -l <"$d/status"
for f in rebase-merge:rebase rebase-apply:rebase MERGE_HEAD:merge CHERRY_PICK_HEAD:cherry-pick REVERT_HEAD:revert; do
[ ! -e "$g/${f%:*}" ] || { echo "${f#*:}"; break; }
done`

// unfinished are what [StatusScript] may find begun.
var unfinished = []string{"rebase", "merge", "cherry-pick", "revert"}

// State describes the output of [StatusScript]: "clean", or "3 files changed", and
// what is in progress, such as "1 file changed, a rebase is in progress". It is empty
// if that is no such output.
func State(output string) string {
	number, begun, _ := strings.Cut(strings.TrimSpace(printed(output)), "\n")
	n, err := strconv.Atoi(number)
	if err != nil || n < 0 || begun != "" && !slices.Contains(unfinished, begun) {
		return ""
	}
	state := fmt.Sprintf("%d files changed", n)
	switch n {
	case 0:
		state = "clean"
	case 1:
		state = "1 file changed"
	}
	if begun != "" {
		state += ", a " + begun + " is in progress"
	}
	return state
}
