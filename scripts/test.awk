# Shortens the output of go test -v. It shows one line for a package that passed, the
# whole output of one that failed, and the reasons of skipped tests. It ends with
# the tests that failed and their number, so that the end of a log tells them, and with
# an error if a test failed or was skipped, or none was run.

# last returns the last forty lines of a text.
function last(text,   l, n, i, end) {
	n = split(text, l, "\n")
	for (i = n > 40 ? n - 39 : 2; i <= n; i++) end = end "\n" l[i]
	return end
}

{ lines[++n] = $0 }

# Keeps the output of each test, for the reason in case it fails or is skipped.
/^=== / { test = $3 }
/^ *--- / { test = "" }
test != "" && !/^=== / { output[test] = output[test] "\n" $0 }

/^ *--- PASS: / { passed++ }

/^ *--- FAIL: / { fails[++failed] = $0 last(output[$3]) }

/^ *--- SKIP: / { skips[++skipped] = $0 output[$3] }

# The last line of a package.
/^(ok|FAIL)[ \t]+[^ \t]/ || /^\?  / || /\[no test files\]$/ {
	if (/^FAIL/) {
		broken++
		for (i = 1; i < n; i++) print lines[i]
	}
	if (!/no test files/) print
	fflush()
	n = 0
	test = ""
	split("", output)
}

END {
	for (i = 1; i <= n; i++) print lines[i]
	for (i = 1; i <= skipped; i++) print skips[i]
	for (i = 1; i <= failed; i++) print fails[i]
	printf "%d tests passed, %d failed, %d skipped\n", passed, failed, skipped
	if (skipped) print "FAIL: no test may be skipped here"
	exit (skipped || failed || broken || !passed) ? 1 : 0
}
