package edit_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/x/pygent/internal/edit"
)

func TestAPlaceholderForWhatWouldBeLostIsSeen(t *testing.T) {
	t.Parallel()
	before := "package a\n\nfunc A() {}\nfunc B() {}\nfunc C() {}\nfunc D() {}\n"
	for _, line := range []string{
		"// ... existing code ...", "// ...existing code...", "# ... rest of the code ...", "<!-- ... existing content ... -->", "/* … rest of file … */",
		"{/* ... rest of the component ... */}", "-- ... other queries unchanged ...", "... existing code ...", "… existing code …", "# ... (rest of the file remains unchanged)",
		"// rest of the code remains the same", "# Existing code stays unchanged", "// ... keep the other functions as they are", "[... rest of the file ...]", "    # ... the remaining tests", "// The rest of the file is unchanged.",
		"// ... code ...", "; ... same as before ...",
	} {
		require.Contains(t, edit.Elided(before, "package a\n\n"+line+"\nfunc E() {}\n"), `would be lost: "func A() {}", "func B() {}", "func C() {}", …`, line)
		require.Empty(t, edit.Elided(before+line+"\n", "package a\n"+line+"\n"), "the file has it already: %s", line)
		require.Empty(t, edit.Elided(before, before+line+"\n"), "nothing is lost: %s", line)
	}
	require.Equal(t, `line 2, "// ... existing code ...", would stand in the file as it is, and 1 of its 2 lines would be lost: "b"`, edit.Elided("a\nb\n", "a\n// ... existing code ...\n"))
	for _, line := range []string{
		"func E() {}", "...", "// ...", "f(...rest)", "const { a, ...rest } = b", "...rest,", "# Use the existing code", "// The rest of the arguments are passed on", "def f(x): ...", "and so on ... other things",
		"// existing users are kept in the table", "...existing,", "x = [...other]", "# other options go in config.toml", "// ...other, as the caller gave it;",
	} {
		require.Empty(t, edit.Elided(before, "package a\n"+line+"\n"), line)
	}
}
