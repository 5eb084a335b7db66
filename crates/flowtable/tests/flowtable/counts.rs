//! Counts of entries that came and went, by all members.

use flowtable::{Addition, FlowTable, Refusal, Shape};

#[test]
fn entries_are_counted_as_they_come_and_go() {
    let table = FlowTable::new(Shape { owners: 1, idle_ticks: vec![0, 4], ..Shape::new(4, 1, 3) }, 1).unwrap();
    let mut members = [table.join().unwrap(), table.join().unwrap()];
    members.iter_mut().for_each(|member| member.begin_batch(1));
    table.set_owner_limit(1, 0);
    let add =
        |member: &mut flowtable::Member, key: u8, owner| member.find_or_add(&[key; 4], &[0], u8::from(key == 2), owner);
    for key in 1..=3 {
        assert!(matches!(add(&mut members[usize::from(key) % 2], key, 0), Addition::Added(_)));
    }
    assert!(matches!(add(&mut members[0], 1, 0), Addition::Found(_)));
    assert_eq!(add(&mut members[0], 4, 0), Addition::Refused(Refusal::Full));
    assert_eq!(add(&mut members[0], 4, 1), Addition::Refused(Refusal::OwnerLimit));
    assert!(members[1].remove(&[1; 4]).is_some() && !members[1].remove(&[1; 4]).is_some());
    for _ in 0..2 {
        members.iter_mut().for_each(|member| member.begin_batch(100));
        members[0].sweep(u32::MAX, |_| {});
    }
    assert!(!members[1].remove(&[2; 4]).is_some(), "it has expired");
    assert!(members[0].modify(&[3; 4], &[1], Some(0)).unwrap().is_some());
    drop(members);
    let counts = table.statistics();
    assert_eq!(([counts.added, counts.removed, counts.expired], table.count()), ([3, 1, 1], 1));
    assert_eq!([Refusal::Full, Refusal::OwnerLimit, Refusal::Busy].map(|it| counts.refused(it)), [1, 1, 0]);
}
