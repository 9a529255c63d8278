package approval

import "strings"

// WritesGit is why somebody is asked about a call that writes files below .git. Front ends
// know such a call by it.
const WritesGit = "it writes files below .git, which can make git on the user's machine run programs"

// Words returns the text of a question about hosts, and the prompt with the
// possible answers. always adds the answer that allows the hosts permanently.
func Words(hosts []string, always bool) (text, prompt string) {
	names := make([]string, len(hosts))
	for i, host := range hosts {
		names[i] = describe(host)
	}
	which, keep := "Allow that?", ""
	if len(hosts) > 1 {
		which = "Allow them all?"
	}
	if always {
		keep = "[a]lways, "
	}
	return strings.Join(names, ", "), which + " [y]es, for this command, for this [s]ession, " + keep + "[n]o, or say why not: "
}

// describe returns a host for display. International names are shown in their
// ASCII form, because letters of different scripts can look the same.
func describe(host string) string {
	if strings.HasPrefix(host, "xn--") || strings.Contains(host, ".xn--") {
		return host + " (punycode: another script)"
	}
	return host
}
