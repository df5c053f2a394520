//! A date and a time of day, as `strftime_now` writes them.

/// A moment, without a time zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DateTime {
    /// Year, from 1 to 9999.
    pub year: i32,
    /// Month, from 1.
    pub month: u32,
    /// Day of the month, from 1.
    pub day: u32,
    /// Hour, from 0.
    pub hour: u32,
    /// Minute.
    pub minute: u32,
    /// Second.
    pub second: u32,
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];

impl DateTime {
    /// The present, in UTC.
    pub fn now() -> DateTime {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        DateTime::from_unix(since.map_or(0, |s| i64::try_from(s.as_secs()).unwrap_or(0)))
    }

    /// The moment so many seconds after 1970, in UTC.
    pub fn from_unix(seconds: i64) -> DateTime {
        let (days, rest) = (seconds.div_euclid(86400), seconds.rem_euclid(86400));
        // Years are counted from March, so that the odd day is a year's last; 400 years have 146097 days.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
        let year = (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
        let month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        DateTime {
            year: (year + era * 400 + i64::from(month <= 2)) as i32,
            month: month as u32,
            day: day as u32,
            hour: (rest / 3600) as u32,
            minute: (rest / 60 % 60) as u32,
            second: (rest % 60) as u32,
        }
    }

    /// Reads `2026-01-15T12:00:00`, also with a space for the T, without seconds, or without a time.
    pub fn parse(text: &str) -> Option<DateTime> {
        let (date, time) = text.split_once(['T', ' ']).unwrap_or((text, "00:00:00"));
        let numbers = |text: &str, sep: char| {
            let parts =
                text.split(sep).map(|p| p.parse::<u32>().ok().filter(|_| p.bytes().all(|b| b.is_ascii_digit())));
            parts.collect::<Option<Vec<u32>>>()
        };
        let [year, month, day] = numbers(date, '-')?[..] else { return None };
        let time = numbers(time.trim_end_matches('Z'), ':')?;
        let (hour, minute, second) = match time[..] {
            [hour, minute] => (hour, minute, 0),
            [hour, minute, second] => (hour, minute, second),
            _ => return None,
        };
        let moment = DateTime { year: i32::try_from(year).ok()?, month, day, hour, minute, second };
        let fits = (1..=9999).contains(&year) && (1..=12).contains(&month) && hour < 24 && minute < 60 && second < 60;
        (fits && day >= 1 && day <= moment.days_of(month)).then_some(moment)
    }

    fn days_of(&self, month: u32) -> u32 {
        let leap = self.year % 4 == 0 && (self.year % 100 != 0 || self.year % 400 == 0);
        match month {
            2 => 28 + u32::from(leap),
            4 | 6 | 9 | 11 => 30,
            _ => 31,
        }
    }

    /// Day of the year, from 1.
    fn day_of_year(&self) -> u32 {
        (1..self.month).map(|m| self.days_of(m)).sum::<u32>() + self.day
    }

    /// Day of the week; Sunday is 0.
    fn weekday(&self) -> u32 {
        let before = i64::from(self.year) - 1;
        let days = before * 365 + before / 4 - before / 100 + before / 400 + i64::from(self.day_of_year());
        days.rem_euclid(7) as u32
    }

    /// Seconds since 1970, if the moment is in UTC.
    fn unix(&self) -> i64 {
        let before = i64::from(self.year) - 1;
        let days = before * 365 + before / 4 - before / 100 + before / 400 + i64::from(self.day_of_year()) - 719_163;
        days * 86400 + i64::from(self.hour * 3600 + self.minute * 60 + self.second)
    }

    /// Year and week of ISO 8601.
    fn iso_week(&self) -> (i32, u32) {
        let weekday = i64::from((self.weekday() + 6) % 7);
        let thursday = DateTime::from_unix((self.unix().div_euclid(86400) - weekday + 3) * 86400);
        (thursday.year, (thursday.day_of_year() - 1) / 7 + 1)
    }

    /// Writes the moment as C's `strftime` does, in English.
    pub fn format(&self, format: &str) -> String {
        let mut out = String::new();
        let mut chars = format.chars();
        while let Some(c) = chars.next() {
            if c != '%' {
                out.push(c);
                continue;
            }
            let Some(mut kind) = chars.next() else {
                out.push('%');
                break;
            };
            let pad = match kind {
                '-' | '_' | '0' => {
                    let flag = kind;
                    kind = chars.next().unwrap_or('%');
                    Some(flag)
                }
                _ => None,
            };
            self.field(kind, pad, &mut out);
        }
        out
    }

    fn field(&self, kind: char, pad: Option<char>, out: &mut String) {
        let twelve = (self.hour + 11) % 12 + 1;
        let month = MONTHS[(self.month as usize - 1) % 12];
        let weekday = self.weekday();
        let day = DAYS[weekday as usize % 7];
        let number = |value: i64, width: usize, usual: char| match pad.unwrap_or(usual) {
            '-' => value.to_string(),
            '_' => format!("{value:width$}"),
            _ => format!("{value:0width$}"),
        };
        let text = match kind {
            'Y' => self.year.to_string(),
            'C' => number(i64::from(self.year / 100), 2, '0'),
            'y' => number(i64::from(self.year % 100), 2, '0'),
            'm' => number(self.month.into(), 2, '0'),
            'd' => number(self.day.into(), 2, '0'),
            'e' => number(self.day.into(), 2, '_'),
            'H' => number(self.hour.into(), 2, '0'),
            'k' => number(self.hour.into(), 2, '_'),
            'I' => number(twelve.into(), 2, '0'),
            'l' => number(twelve.into(), 2, '_'),
            'M' => number(self.minute.into(), 2, '0'),
            'S' => number(self.second.into(), 2, '0'),
            'f' => "000000".to_string(),
            'j' => number(self.day_of_year().into(), 3, '0'),
            'U' => number(((self.day_of_year() + 6 - weekday) / 7).into(), 2, '0'),
            'W' => number(((self.day_of_year() + 6 - (weekday + 6) % 7) / 7).into(), 2, '0'),
            'V' => number(self.iso_week().1.into(), 2, '0'),
            'G' => self.iso_week().0.to_string(),
            'g' => number(i64::from(self.iso_week().0 % 100), 2, '0'),
            'u' => (if weekday == 0 { 7 } else { weekday }).to_string(),
            'w' => weekday.to_string(),
            's' => self.unix().to_string(),
            'B' => month.to_string(),
            'b' | 'h' => month[..3].to_string(),
            'A' => day.to_string(),
            'a' => day[..3].to_string(),
            'p' => if self.hour < 12 { "AM" } else { "PM" }.to_string(),
            'P' => if self.hour < 12 { "am" } else { "pm" }.to_string(),
            'F' => self.format("%Y-%m-%d"),
            'T' | 'X' => self.format("%H:%M:%S"),
            'R' => self.format("%H:%M"),
            'r' => self.format("%I:%M:%S %p"),
            'D' | 'x' => self.format("%m/%d/%y"),
            'c' => self.format("%a %b %e %H:%M:%S %Y"),
            'Z' | 'z' => String::new(),
            'n' => "\n".to_string(),
            't' => "\t".to_string(),
            '%' => "%".to_string(),
            other => format!("%{other}"),
        };
        out.push_str(&text);
    }
}
