# Shortens the output of go test -v. A package that passed is one line, one that
# failed is shown whole, and skipped tests are shown with their reason. The last
# line has the numbers. The exit status is an error if a test was skipped or
# failed, or if none was run.

{ lines[++n] = $0 }

# The output of each test has the reason if it is skipped.
/^=== / { test = $3 }
/^ *--- / { test = "" }
test != "" && !/^=== / { said[test] = said[test] "\n" $0 }

/^ *--- PASS: / { passed++ }

/^ *--- FAIL: / { failed++ }

/^ *--- SKIP: / { skips[++skipped] = $0 said[$3] }

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
	split("", said)
}

END {
	for (i = 1; i <= n; i++) print lines[i]
	for (i = 1; i <= skipped; i++) print skips[i]
	printf "%d tests passed, %d failed, %d skipped\n", passed, failed, skipped
	if (skipped) print "FAIL: no test may be skipped here"
	exit (skipped || failed || broken || !passed) ? 1 : 0
}
