package pygent

// OpenHistoryOn opens a history on a simulated disk.
var OpenHistoryOn = openHistoryOn
